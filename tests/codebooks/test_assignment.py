import numpy as np
import pytest

from onlinehash.codebooks import ClassTable, ExplicitCodebook, HadamardCodebook
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError


def test_labels_are_numbered_in_order_of_first_sight():
    table = ClassTable(HadamardCodebook(8))
    table.admit(np.array([7, 3, 7]))
    table.admit(np.array([5, 3]))
    assert table.numbers(np.array([7, 3, 7, 5])).tolist() == [0, 1, 0, 2]
    assert table.labels == [7, 3, 5]
    assert table.number(5) == 2
    assert table.number(99) is None


def test_the_codeword_of_a_class_never_moves():
    table = ClassTable(HadamardCodebook(8))
    table.admit(np.arange(5))
    before = table.codewords.copy()
    table.admit(np.arange(100))
    assert np.array_equal(table.codewords[:5], before)


def test_kinds_of_labels_do_not_mix():
    table = ClassTable(HadamardCodebook(8))
    table.admit(np.array([1, 2]))
    with pytest.raises(InvalidLabelsError, match="earlier labels were int, such as 1"):
        table.admit(np.array(["1"]))
    assert table.labels == [1, 2]


def test_an_explicit_codebook_refuses_other_labels_and_admits_none_of_the_call():
    table = ClassTable(ExplicitCodebook({"cat": [1, -1], "dog": [-1, 1]}, n_bits=2))
    with pytest.raises(InvalidLabelsError, match=r"no codeword for label 'owl'.*'cat', 'dog'"):
        table.admit(np.array(["cat", "owl"]))
    assert len(table) == 0
    table.admit(np.array(["dog"]))
    assert table.codewords.tolist() == [[-1, 1]]


@pytest.mark.parametrize(
    "mapping, message", [({}, "empty"), ({1: [1, -1, 1]}, "shape"), ({1: [1, 0]}, "other than -1 and")]
)
def test_a_faulty_mapping_is_refused(mapping, message):
    with pytest.raises(InvalidInputError, match=message):
        ExplicitCodebook(mapping, n_bits=2)


def test_numpy_labels_in_a_mapping_are_found():
    assert ExplicitCodebook({np.int64(4): [1, 1]}, n_bits=2).codeword(0, 4).tolist() == [1, 1]
