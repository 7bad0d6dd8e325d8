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
        (lambda: read_conll(io.StringIO("a b\n\nc")), "Line 3 has 1 columns"),
        (lambda: read_conll(io.StringIO("\n\n")), "no token"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF), 3), "is n_labels right"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF), 4), "no 4 labels beside"),
        (lambda: read_multilabel_arff(io.StringIO(CONLL), 2), "no ARFF file"),
        (lambda: read_multilabel_arff(io.StringIO(ARFF.replace("real", "string")), 2), "no ARFF file"),
    ],
)
def test_other_files_are_refused(read, words):
    with pytest.raises(InvalidInputError, match=words):
        read()
