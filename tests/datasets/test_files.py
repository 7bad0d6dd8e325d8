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
    ("read", "words"),
    [
        (lambda: read_conll(io.StringIO("a b\n\nc")), "the file, line 3 has 1 columns"),
        (lambda: read_conll(io.StringIO("\n\n")), "no token"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF), 3), "is n_labels right"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF), 4), "no 4 labels beside"),
        (lambda: read_multilabel_arff(io.StringIO(CONLL), 2), "line 1: '-DOCSTART- -X- O' is not read"),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("real", "string")), 2),
            "line 4: .* is no numeric attribute",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("0.5", "?")), 2),
            r"line 8: the entry '\?' is no",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("0.5", "inf")), 2),
            "line 8: the entry 'inf' is no",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("0.5", "1_0")), 2),
            "line 8: the entry '1_0' is no",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("0.5,", "")), 2),
            "line 8: there are 3 entries for 4",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("0.5,", "1,1,")), 2),
            "line 8: there are 5 entries",
        ),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("-1,1,0", "-1,2,0")), 2),
            "line 8: the entry '2' of",
        ),
        (lambda: read_multilabel_arff(io.StringIO(ARFF + "{0 1}\n"), 2), "line 10: .* sparse form"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF[: ARFF.index("0.5")]), 2), "ends without examples"),
        (
            lambda: read_multilabel_arff(io.StringIO(ARFF.replace("@data\n", "")), 2),
            "line 7: '0.5,-1,1,0' is not",
        ),
        (lambda: read_multilabel_arff(io.StringIO(""), 2), "line 1: the file ends"),
        (lambda: read_conll(io.StringIO("a b"), sep=""), "sep must not be empty"),
        (lambda: read_conll(io.BytesIO(b"a \xff")), "the file is not in UTF-8: .* position 2"),
        (lambda: read_conll(io.BytesIO(b"a \0")), "no text file"),
        (lambda: read_conll(3), "path or a file object"),
    ],
)
def test_other_files_are_refused(read, words):
    with pytest.raises(InvalidInputError, match=words):
        read()


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
