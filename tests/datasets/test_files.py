"""Readers of files: what they return, and what they refuse."""

import gzip
import io

import numpy as np
import pytest

from cutplane.datasets import read_conll, read_multilabel_arff
from cutplane.exceptions import InvalidInputError

CONLL = "-DOCSTART- -X- O\n\nHe PRP B-NP\nsleeps VBZ B-VP\n\n\nYes UH B-INTJ\n"
ARFF = """% a comment
@relation r
@attribute a numeric
@attribute b real
@attribute c {0,1}
@attribute d {0,1}
@data
0.5,-1,1,0
1e-3,2,0,0
"""


def test_sentences_are_read_from_files_of_each_kind(tmp_path):
    expected = [[("He", "PRP", "B-NP"), ("sleeps", "VBZ", "B-VP")], [("Yes", "UH", "B-INTJ")]]
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text(CONLL)
    packed.write_bytes(gzip.compress(CONLL.encode()))
    for file in (plain, str(packed), io.StringIO(CONLL)):
        assert read_conll(file) == expected
    assert read_conll(io.StringIO("# text\na\tb c\td"), sep="\t", comment="#") == [[("a", "b c", "d")]]


def test_labels_are_the_last_columns(tmp_path):
    file = tmp_path / "a.arff.gz"
    file.write_bytes(gzip.compress(ARFF.encode()))
    X, Y = read_multilabel_arff(file, 2)
    np.testing.assert_array_equal(X, [[0.5, -1.0], [1e-3, 2.0]])
    assert Y.tolist() == [[1, 0], [0, 0]]
    assert Y.dtype.kind == "i"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ARFF.replace("d {0,1}", "d {0,1,2}").replace("1e-3,2,0,0", "1e-3,2,0,2"), "is n_labels right"),
        ("@relation r\n@attribute a real\n@attribute b {0,1}\n@data\n1,0", "no 2 labels beside"),
        (CONLL, "line 1: '-DOCSTART- -X- O' is not read"),
        (ARFF.replace("real", "string"), "line 4: .* is no numeric attribute"),
        (ARFF.replace("0.5", "?"), r"line 8: the entry '\?' is no"),
        (ARFF.replace("0.5", "inf"), "line 8: the entry 'inf' is no"),
        (ARFF.replace("0.5", "1_0"), "line 8: the entry '1_0' is no"),
        (ARFF.replace("0.5,", ""), "line 8: there are 3 entries for 4"),
        (ARFF.replace("0.5,", "1,1,"), "line 8: there are 5 entries"),
        (ARFF.replace("-1,1,0", "-1,2,0"), "line 8: the entry '2' of"),
        (ARFF + "{0 1}\n", "line 10: .* sparse form"),
        (ARFF[: ARFF.index("0.5")], "ends without examples"),
        (ARFF.replace("@data\n", ""), "line 7: '0.5,-1,1,0' is not"),
        ("", "line 1: the file ends"),
    ],
)
def test_other_arff_files_are_refused(text, words):
    with pytest.raises(InvalidInputError, match=words):
        read_multilabel_arff(io.StringIO(text), 2)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (io.StringIO("a b\n\nc"), "the file, line 3 has 1 columns"),
        (io.StringIO("\n\n"), "no token"),
        (io.BytesIO(b"a \xff"), "the file is not in UTF-8: .* position 2"),
        (io.BytesIO(b"a \0"), "no text file"),
        (3, "path or a file object"),
    ],
)
def test_other_files_of_sentences_are_refused(file, words):
    with pytest.raises(InvalidInputError, match=words):
        read_conll(file)
    with pytest.raises(InvalidInputError, match="sep must not be empty"):
        read_conll(io.StringIO("a b"), sep="")


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_and_line_ends_change_nothing(encoding, ends, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(CONLL.replace("\n", ends).encode(encoding))
    assert read_conll(path) == read_conll(io.StringIO(CONLL))
    path.write_bytes(ARFF.replace("\n", ends).encode(encoding))
    for here, there in zip(
        read_multilabel_arff(path, 2), read_multilabel_arff(io.StringIO(ARFF), 2), strict=True
    ):
        np.testing.assert_array_equal(here, there)


def test_no_line_is_a_comment_where_there_are_none_and_other_separators_end_no_line():
    assert len(read_conll(io.StringIO(CONLL), comment="")) == 3
    assert read_conll(io.StringIO("a\u2028b c\nd\x0ce\x85 f"), sep=" ") == [
        [("a\u2028b", "c"), ("d\x0ce\x85", "f")]
    ]


def test_names_of_attributes_may_be_quoted():
    text = ARFF.replace("@attribute a", "@ATTRIBUTE 'it\\'s an {a}'").replace("c {0,1}", '"c d"{0, 1}')
    X, Y = read_multilabel_arff(io.StringIO(text), 2)
    assert X.shape == Y.shape == (2, 2)
