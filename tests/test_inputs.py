"""What is accepted as vectors, labels and ids: the tables of docs/inputs.md, row by row."""

import re
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from onlinehash import HCOH, HROH, LSH, Collection, Encoder, FlatIndex, load_hasher
from onlinehash._internal.validation import as_array, records
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError
from onlinehash.hashers import HASHERS
from onlinehash.metrics import mean_average_precision

PAGE = (Path(__file__).parents[1] / "docs" / "inputs.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
BIG = 2**53 + 1


class Intent(str, Enum):  # noqa: UP042 (the kind whose str() is not its value)
    BUY = "buy"
    SELL = "sell"
    ASK = "ask"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Plain(Enum):
    ONE = 1
    TWO = 2


class Word(str):
    __slots__ = ()


class Tensor:
    """As much of a tensor as is asked for."""

    def __init__(self, values, dtype="torch.float32", device="cpu", requires_grad=False):
        self.values, self.dtype, self.device, self.requires_grad = np.asarray(values), dtype, device, requires_grad

    ndim = property(lambda self: self.values.ndim)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i):
        return Tensor(self.values[i], self.dtype, self.device, self.requires_grad)

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def detach(self):
        return Tensor(self.values, self.dtype, self.device)

    def float(self):
        return Tensor(self.values.astype(np.float32), "torch.float32", self.device, self.requires_grad)

    def numpy(self):
        if self.device != "cpu" or self.requires_grad or "bfloat16" in self.dtype:
            raise TypeError("can't convert")
        return self.values

    def item(self):
        return self.values.item()


def make(method):
    return method(8, random_state=0, **({"features": "none"} if method is HROH else {}))


ABA, ABN = ["a", "b", "a"], ["a", "b", None]
N121, N12N = [1, 2, 1], [1, 2, None]
BIGS = [BIG, BIG - 1, None]

# A row of the table in docs/inputs.md, the labels of three rows, and what they are taken as.
TAKEN = [
    ("integers", N121, N121),
    ("integers", range(3), [0, 1, 2]),
    ("integers", (-(2**63), 2**63 - 1, 0), [-(2**63), 2**63 - 1, 0]),
    *(("integers", np.array(N121, kind), N121) for kind in ("i1", "u2", ">i4", "i8", "u8")),
    ("integers", [np.int8(1), np.uint64(2), 1], N121),
    ("integers", np.array([BIG, BIG - 1, 1], object), [BIG, BIG - 1, 1]),
    ("integers", np.array([[1], [2], [1]]), N121),
    ("integers", pd.Series(N121, index=[7, 8, 9]), N121),
    ("integers", pd.Series(N12N, dtype="Int64"), N12N),
    ("integers", pd.Series(BIGS, dtype="Int64"), BIGS),
    ("integers", pd.Series(BIGS, dtype=object), BIGS),
    ("integers", pd.DataFrame({"label": pd.Series(N12N, dtype="Int16")}), N12N),
    ("integers", pl.Series(BIGS), BIGS),
    ("integers", pl.DataFrame({"label": N12N}), N12N),
    ("integers", pa.array(N121, pa.uint8()), N121),
    ("integers", pa.array(BIGS), BIGS),
    ("integers", pa.chunked_array([[1], [2, None]]), N12N),
    ("integers", list(pa.array(N12N)), N12N),
    ("integers", pa.table({"label": N12N}), N12N),
    ("integers", Tensor(N121, "torch.int64"), N121),
    ("integers", [Tensor(1), Tensor(2), Tensor(1)], N121),
    ("integers", [np.array(1), np.array(2), 1], N121),
    ("strings", ABA, ABA),
    ("strings", ABN, ABN),
    ("strings", ["1", "2", "1"], ["1", "2", "1"]),
    ("strings", [Word("a"), "b", Word("a")], ABA),
    ("strings", ["a" * 50, "a" * 51, "a" * 50], ["a" * 50, "a" * 51, "a" * 50]),
    ("strings", np.array(ABA), ABA),
    ("strings", np.array(ABN, object), ABN),
    ("strings", [np.str_("a"), "b", np.str_("a")], ABA),
    ("strings", np.array(ABA, np.dtypes.StringDType()), ABA),
    ("strings", np.array(["a", "b", np.nan], np.dtypes.StringDType(na_object=np.nan)), ABN),
    ("strings", pd.Series(ABN), ABN),
    ("strings", pd.Series(ABN, dtype=object), ABN),
    ("strings", pd.Series(ABN, dtype="string"), ABN),
    ("strings", pd.Index(ABA), ABA),
    ("strings", pd.array(ABN, dtype="string"), ABN),
    ("strings", pl.Series(ABN), ABN),
    ("strings", pa.array(ABN), ABN),
    ("strings", pa.array(ABN, pa.large_string()), ABN),
    ("strings", pa.chunked_array([pa.array(["a", "b"]), pa.array([None], pa.string())]), ABN),
    ("categories", pd.Series(ABN, dtype="category"), ABN),
    ("categories", pd.Categorical.from_codes([0, 1, -1], [BIG, BIG - 1]), BIGS),
    ("categories", pl.Series(ABN, dtype=pl.Categorical), ABN),
    ("categories", pl.Series(ABN, dtype=pl.Enum(["b", "a"])), ABN),
    ("categories", pa.array(ABN).dictionary_encode(), ABN),
    ("categories", pa.array(BIGS).dictionary_encode(), BIGS),
    ("members of an Enum", [Intent.BUY, Intent.SELL, Intent.ASK], ["buy", "sell", "ask"]),
    ("members of an Enum", [Intent.BUY, None, "sell"], ["buy", None, "sell"]),
    ("members of an Enum", pd.Series([Intent.BUY, Intent.SELL, Intent.BUY], dtype=object), ["buy", "sell", "buy"]),
    ("members of an Enum", [Colour.RED, Colour.BLUE, Colour.RED], ["red", "blue", "red"]),
    ("members of an Enum", [Level.LOW, Level.HIGH, Level.LOW], N121),
    ("members of an Enum", [Plain.ONE, Plain.TWO, None], N12N),
    ("whole floating-point numbers", [1.0, 2.0, 1.0], N121),
    ("whole floating-point numbers", [1, 2.0, np.float32(1)], N121),
    ("whole floating-point numbers", np.array([1, 2, np.nan], np.float32), N12N),
    ("whole floating-point numbers", np.array([1, 2, 1], np.float16), N121),
    ("whole floating-point numbers", pd.Series([1, 2, None]), N12N),
    ("whole floating-point numbers", pl.Series([1.0, 2.0, None]), N12N),
    ("whole floating-point numbers", np.array([-(2.0**53) + 1, 2.0**53 - 1, 0]), [1 - 2**53, 2**53 - 1, 0]),
    ("`True` and `False`", [True, False, True], [1, 0, 1]),
    ("`True` and `False`", np.array([True, False, True]), [1, 0, 1]),
    ("`True` and `False`", pd.Series([True, False, None], dtype="boolean"), [1, 0, None]),
    ("`True` and `False`", pl.Series([True, False, None]), [1, 0, None]),
    ("`True` and `False`", pa.array([True, False, None]), [1, 0, None]),
    ("nothing", [None, float("nan"), 1], [None, None, 1]),
    ("nothing", [pd.NA, pd.NaT, "a"], [None, None, "a"]),
    ("nothing", [np.datetime64("NaT"), np.float32("nan"), "a"], [None, None, "a"]),
    ("nothing", pd.Series([pd.NaT, pd.NaT, pd.NaT]), [None] * 3),
    ("nothing", pa.nulls(3), [None] * 3),
]
SETS = [("a", "b"), ("b",), ()]
TAKEN_SEVERAL = [
    ("several labels", [["a", "b"], ("b",), []], SETS),
    ("several labels", [["a", "b"], "b", None], SETS),
    ("several labels", [{"b", "a"}, frozenset(["b"]), set()], SETS),
    ("several labels", [np.array(["a", "b"]), np.array(["b"], object), np.array([], str)], SETS),
    ("several labels", [[Intent.BUY, Intent.ASK], [Intent.SELL], []], [("buy", "ask"), ("sell",), ()]),
    ("several labels", [[np.int64(1), 2.0], [BIG], []], [(1, 2), (BIG,), ()]),
    ("several labels", pd.Series([["a", "b"], ["b"], None]), SETS),
    ("several labels", pd.Series([["a", "b"], ["b"], None], dtype=pd.ArrowDtype(pa.list_(pa.string()))), SETS),
    ("several labels", pl.Series([["a", "b"], ["b"], None]), SETS),
    ("several labels", [pl.Series(["a", "b"]), pd.Series(["b"]), []], SETS),
    ("several labels", pl.Series([[BIG, 2], [2], []]), [(BIG, 2), (2,), ()]),
    ("several labels", pa.array([["a", "b"], ["b"], None]), SETS),
    ("several labels", pa.chunked_array([[[BIG, 2]], [[2], []]]), [(BIG, 2), (2,), ()]),
    ("several labels", list(pa.array([["a", "b"], ["b"], None])), SETS),
    ("several labels", [Tensor([1, 2], "torch.int64"), Tensor([2], "torch.int64"), []], [(1, 2), (2,), ()]),
    ("an indicator matrix", np.array([[1, 1], [0, 1], [0, 0]]), [(0, 1), (1,), ()]),
    ("an indicator matrix", pd.DataFrame({"a": [1, 0, 0], "b": [1, 1, 0]}), SETS),
    ("an indicator matrix", pd.DataFrame({"a": [True, False, False], "b": [True, True, False]}), SETS),
    ("an indicator matrix", pl.DataFrame({"a": [1, 0, 0], "b": [1, 1, 0]}), SETS),
    ("an indicator matrix", pa.table({"a": [1, 0, 0], "b": [1, 1, 0]}), SETS),
    ("an indicator matrix", pd.DataFrame([[1, 1], [0, 1], [0, 0]]), [(0, 1), (1,), ()]),
]
REFUSED = [
    ("other floating-point numbers", [1.5, 1, 2], "holds 1.5"),
    ("other floating-point numbers", np.array([1, np.inf, 2]), "inf"),
    ("other floating-point numbers", [1, float(BIG), 2], "not exactly an integer"),
    ("other floating-point numbers", np.array([1, BIG, 2.0]), "not exactly an integer"),
    ("other floating-point numbers", np.array([1, 2**24 + 1, 2], np.float32), "not exactly an integer"),
    ("other floating-point numbers", pd.Series([1, BIG, None], dtype=float), "not exactly an integer"),
    ("integers beyond int64", [2**63, 1, 2], "beyond int64"),
    ("integers beyond int64", np.array([2**63, 1, 2], np.uint64), "beyond int64"),
    ("integers beyond int64", [None, 1, 2**70], "beyond int64"),
    ("integers beyond int64", pl.Series([1, 2, 2**70], dtype=pl.Int128), "beyond int64"),
    ("bytes", [b"a", b"b", b"a"], "holds bytes"),
    ("bytes", np.array([b"a", b"b", b"a"]), "holds bytes"),
    ("bytes", pl.Series([b"a", b"b", b"a"]), "holds bytes"),
    ("bytes", pa.array([b"a", b"b", None]), "holds bytes"),
    ("dates and times", [date(2026, 1, 1)] * 3, "holds date"),
    ("dates and times", [datetime(2026, 1, 1), None, None], "holds datetime"),
    ("dates and times", np.array(["2026-01-01"] * 3, "M8[ns]"), "holds datetime64"),
    ("dates and times", [np.datetime64("2026-01-01", "ns")] * 3, "holds datetime64"),
    ("dates and times", pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02", None])), "datetime64"),
    ("dates and times", pl.Series([date(2026, 1, 1), None, None]), "holds date"),
    ("dates and times", pa.array([datetime(2026, 1, 1), None, None]), "holds"),
    ("dates and times", [[np.datetime64("2026-01-01", "ns")]] * 3, "holds datetime64"),
    ("dates and times", [np.array(["2026-01-01"], "M8[ns]")] * 3, "holds datetime64"),
    ("`Decimal`, `Fraction`", [Decimal(1), Decimal(2), Decimal(1)], "holds Decimal"),
    ("`Decimal`, `Fraction`", [Fraction(1), Fraction(2), Fraction(1)], "holds Fraction"),
    ("`Decimal`, `Fraction`", pl.Series([Decimal(1), Decimal(2), None]), "holds Decimal"),
    ("`Decimal`, `Fraction`", pa.array([Decimal(1), Decimal(2), Decimal(1)]), "holds Decimal"),
    ("mixed kinds", [1, "a", 2], "mixes int, str"),
    ("mixed kinds", np.array([1, "a", None], object), "mixes int, str"),
    ("mixed kinds", [True, 1, 2], "mixes bool, int"),
    ("mixed kinds", [Level.LOW, Plain.ONE, 2], "different Enums"),
    ("mixed kinds", [[1, "a"], [2], [3]], "mixes int, str"),
    ("mixed kinds", [{1, "a"}, [2], [3]], "mixes int, str"),
    ("strings that end in a zero character", ["a\0", "a", "b"], "zero character"),
    ("a missing label in a list", [["a", None], ["b"], ["c"]], "missing label"),
    ("a missing label in a list", pl.Series([["a", None], ["b"], ["c"]]), "missing label"),
    ("the same label twice in a list", [["a", "a"], ["b"], ["c"]], "twice"),
    ("the same label twice in a list", [[Level.LOW, 1], [2], [3]], "twice"),
    ("lists in lists", [[["a"]], [["b"]], [["c"]]], "lists in lists"),
    ("lists in lists", [{"a": 1}, {"b": 2}, {"c": 3}], "dict"),
    ("masked arrays", np.ma.masked_array([1, 2, 3], [0, 1, 0]), r"y\.filled"),
    ("tensors on another device", Tensor(N121, "torch.int64", "cuda:0"), r"cuda:0; pass y\.cpu"),
    ("a set of all labels", {1, 2, 3}, "1d array"),
    ("objects of other classes", [object(), object(), object()], "holds object"),
    ("objects of other classes", [1j, 2j, 3j], "holds complex"),
]


def named(cases):
    return [pytest.param(*case[1:], id=f"{case[0]}-{type(case[1]).__name__}-{i}") for i, case in enumerate(cases)]


@pytest.mark.parametrize("row", sorted({case[0] for case in TAKEN + TAKEN_SEVERAL + REFUSED}))
def test_the_page_has_a_row_for_every_kind_of_label(row):
    assert f"\n| {row[0].upper()}{row[1:]}" in PAGE


@pytest.mark.parametrize(("y", "expected"), named(TAKEN))
def test_labels_are_learned_as_what_they_are(y, expected):
    labelled = [label is not None for label in expected]
    hasher = HCOH(8, random_state=0).partial_fit(X, y)
    assert hasher.n_unlabelled_ == labelled.count(False)
    if any(labelled):
        known = list(dict.fromkeys(label for label in expected if label is not None))
        assert hasher.classes_.tolist() == known
        assert list(map(type, hasher.classes_.tolist())) == list(map(type, known))
        again = load_hasher(hasher.to_bytes())
        assert again.classes_.tolist() == known


@pytest.mark.parametrize(("y", "expected"), named(TAKEN_SEVERAL))
def test_several_labels_are_learned_as_what_they_are(y, expected):
    hasher = HCOH(8, random_state=0).partial_fit(X, y)
    assert hasher.classes_.tolist() == list(dict.fromkeys(label for row in expected for label in row))
    assert (hasher.n_samples_seen_, hasher.n_unlabelled_) == (2, 1)


@pytest.mark.parametrize(("y", "expected"), named(TAKEN + TAKEN_SEVERAL))
def test_labels_are_stored_as_what_they_are(tmp_path, y, expected):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert([1, 2, 3], X, y)
        stored = [item.labels for item in collection.get([1, 2, 3])]
        single = [row[0] if isinstance(row, tuple) and len(row) == 1 else row or None for row in expected]
        assert stored == (single if any(isinstance(row, tuple) for row in expected) else expected)
        for label in {label for label in stored if isinstance(label, (int, str))}:
            found = collection.search(X[0], k=3, labels=label).ids
            assert sorted(found) == [i + 1 for i, own in enumerate(stored) if own == label or label in _several(own)]


def _several(labels):
    return labels if isinstance(labels, tuple) else ()


@pytest.mark.parametrize(("y", "expected"), named(TAKEN + TAKEN_SEVERAL))
def test_labels_are_compared_as_what_they_are(y, expected):
    codes = np.array([[0], [1], [3]], np.uint8)
    if any(label is None for label in expected):
        with pytest.raises(InvalidLabelsError, match="without a label"):
            mean_average_precision(codes, y, codes, y)
    else:
        plain = [list(row) if isinstance(row, tuple) else row for row in expected]
        assert mean_average_precision(codes, y, codes, y) == mean_average_precision(codes, plain, codes, plain)
        assert mean_average_precision(codes, y, codes, plain) == mean_average_precision(codes, plain, codes, plain)


@pytest.mark.parametrize(("y", "message"), named(REFUSED))
def test_other_labels_are_refused_everywhere(tmp_path, y, message):
    hasher = HCOH(8, random_state=0)
    with pytest.raises(InvalidLabelsError, match=message):
        hasher.partial_fit(X, y)
    assert not hasattr(hasher, "n_samples_seen_")
    codes = np.zeros((3, 1), np.uint8)
    with pytest.raises(InvalidLabelsError, match=message):
        mean_average_precision(codes, y, codes, [1, 2, 3])
    with Collection.open(tmp_path / "a.oh", hasher) as collection:
        with pytest.raises(InvalidLabelsError, match=re.sub(r"\by\b", "labels", message)):
            collection.upsert([1, 2, 3], X, y)
        assert len(collection) == 0


def test_one_label_alone_is_taken_as_in_a_list(tmp_path):
    for label, expected in [(Intent.BUY, "buy"), (Level.LOW, 1), (np.float32(3), 3), (Tensor(2), 2), (Plain.TWO, 2)]:
        assert HCOH(8, random_state=0).partial_fit(X[0], label).classes_.tolist() == [expected]
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert([1, 2], X[:2], [Intent.BUY, Intent.ASK])
        collection.upsert(3, X[2], {Intent.BUY, Intent.ASK})
        assert collection.get(3)[0].labels == ("ask", "buy")
        assert sorted(collection.search(X[0], labels=Intent.BUY).ids) == [1, 3]
        assert sorted(collection.search(X[0], labels=pd.Series([Intent.BUY, "ask"])).ids) == [1, 2, 3]
        with pytest.raises(InvalidLabelsError, match="labels holds int; the labels of this collection are str"):
            collection.search(X[0], labels=1)


def test_an_unsupervised_method_ignores_labels_of_any_kind():
    for y in ([["a"], ["b", "c"], []], pa.array([1, 2, None]), pd.Series([date(2026, 1, 1)] * 3), {1, 2, 3}):
        assert LSH(8, random_state=0).partial_fit(X, y).n_samples_seen_ == 3


@pytest.mark.parametrize("method", [each for each in HASHERS.values() if each.supervised])
def test_labels_that_are_longer_than_those_before_keep_their_end(method):
    rows, y = RNG.normal(size=(300, 8)), np.arange(300) % 4
    y[:150] %= 2
    names = np.array(["a", "b", "c" * 300, "c" * 300 + "d"], object)
    by_number, by_name = make(method), make(method)
    for some in np.split(np.arange(300), 5):
        by_number.partial_fit(rows[some], y[some])
        by_name.partial_fit(rows[some], names[y[some]].tolist())
    assert np.array_equal(by_name.project(rows), by_number.project(rows))


def test_the_words_of_a_codebook_may_be_those_of_an_enum():
    words = {Plain.ONE: [1, 1], Plain.TWO: [1, -1]}
    hasher = HCOH(2, codebook=words, random_state=0).partial_fit(X[:2], [Plain.ONE, Plain.TWO])
    assert load_hasher(hasher.to_bytes()).codewords_.tolist() == [[1, 1], [1, -1]]


def test_several_labels_of_different_kinds_are_not_compared():
    codes = np.zeros((1, 1), np.uint8)
    with pytest.raises(InvalidLabelsError, match="different kinds"):
        mean_average_precision(codes, [["1", "2"]], codes, [[1, 2]])


# ---------------------------------------------------------------------- ids

IDS = [
    ("integers", [3, 1, 2], [3, 1, 2]),
    ("integers", range(3), [0, 1, 2]),
    ("integers", np.array([3, 1, 2], np.uint8), [3, 1, 2]),
    ("integers", np.array([3, BIG, 2], object), [3, BIG, 2]),
    ("integers", [np.int64(3), 1, np.uint8(2)], [3, 1, 2]),
    ("integers", [Level.LOW, Level.HIGH, 3], [1, 2, 3]),
    ("integers", [Plain.ONE, Plain.TWO, 3], [1, 2, 3]),
    ("integers", pd.Series([3, 1, 2], index=list("xyz")), [3, 1, 2]),
    ("integers", pd.Series([3, BIG, 2], dtype="Int64"), [3, BIG, 2]),
    ("integers", pd.Index([3, 1, 2]), [3, 1, 2]),
    ("integers", pd.Series([3, 1, 2], dtype="category"), [3, 1, 2]),
    ("integers", pl.Series([3, BIG, 2]), [3, BIG, 2]),
    ("integers", pa.chunked_array([[3], [BIG, 2]]), [3, BIG, 2]),
    ("integers", list(pa.array([3, 1, 2])), [3, 1, 2]),
    ("integers", Tensor([3, 1, 2], "torch.int64"), [3, 1, 2]),
]
TEXT_IDS = [
    ("strings", ["c", "a", "b"], ["c", "a", "b"]),
    ("strings", [Intent.BUY, Intent.SELL, "x"], ["buy", "sell", "x"]),
    ("strings", np.array(["c", "a", "b" * 40]), ["c", "a", "b" * 40]),
    ("strings", np.array(["c", "a", "b"], np.dtypes.StringDType()), ["c", "a", "b"]),
    ("strings", pd.Series(["c", "a", "b"]), ["c", "a", "b"]),
    ("strings", pd.Index(["c", "a", "b"]), ["c", "a", "b"]),
    ("strings", pd.Series(["c", "a", "b"], dtype="category"), ["c", "a", "b"]),
    ("strings", pl.Series(["c", "a", "b"]), ["c", "a", "b"]),
    ("strings", pl.Series(["c", "a", "b"], dtype=pl.Categorical), ["c", "a", "b"]),
    ("strings", pa.array(["c", "a", "b"], pa.large_string()), ["c", "a", "b"]),
    ("strings", pa.array(["c", "a", "b"]).dictionary_encode(), ["c", "a", "b"]),
]
REFUSED_IDS = [
    ("floats", [1.0, 2.0, 3.0]),
    ("floats", np.array([1.0, 2.0, 3.0])),
    ("bools", [True, 2, 3]),
    ("bools", np.array([True, False, True])),
    ("nothing", [1, 2, None]),
    ("nothing", pd.Series([1, 2, None], dtype="Int64")),
    ("nothing", pl.Series([1, 2, None])),
    ("nothing", pa.array(["a", "b", None])),
    ("nothing", pd.Series(["a", "b", None])),
    ("bytes", [b"a", b"b", b"c"]),
    ("bytes", np.array([b"a", b"b", b"c"])),
    ("times", np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[ns]")),
    ("times", pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]))),
    ("decimals", [Decimal(1), Decimal(2), Decimal(3)]),
    ("lists", [[1], [2], [3]]),
    ("mixed", [1, "a", 2]),
    ("beyond int64", [1, 2, 2**63]),
    ("masked", np.ma.masked_array([1, 2, 3], [0, 1, 0])),
    ("columns", np.array([[1, 2], [3, 4], [5, 6]])),
]


@pytest.mark.parametrize(("ids", "expected"), named(IDS + TEXT_IDS))
def test_ids_of_a_collection_are_kept_as_what_they_are(tmp_path, ids, expected):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert(ids, X, [1, 2, 1])
        assert sorted(collection) == sorted(expected)
        assert [item.id for item in collection.get(ids)] == expected
        assert sorted(collection.search(X[0], ids=ids).ids) == sorted(expected)
        collection.delete(ids)
        assert len(collection) == 0


@pytest.mark.parametrize(("ids", "expected"), named(IDS))
def test_ids_of_an_index_are_kept_as_what_they_are(ids, expected):
    index, codes = FlatIndex(8), np.array([[0], [1], [3]], np.uint8)
    index.upsert(codes, ids)
    assert sorted(index.ids.tolist()) == sorted(expected)
    assert np.array_equal(index.get(ids), codes)
    assert sorted(index.search(codes[:1], 3, ids=ids).ids[0].tolist()) == sorted(expected)
    index.delete(ids)
    assert len(index) == 0


@pytest.mark.parametrize("ids", [case[1] for case in REFUSED_IDS])
def test_other_ids_are_refused(tmp_path, ids):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        with pytest.raises(InvalidInputError, match="ids"):
            collection.upsert(ids, X, [1, 2, 1])
        assert len(collection) == 0
    index = FlatIndex(8)
    with pytest.raises(InvalidInputError, match="ids"):
        index.upsert(np.zeros((3, 1), np.uint8), ids)
    assert len(index) == 0


def test_ids_in_a_set_cannot_be_matched_with_rows(tmp_path):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        with pytest.raises(InvalidInputError, match="has no order"):
            collection.upsert({1, 2, 3}, X, [1, 2, 1])
        collection.upsert([1, 2, 3], X, [1, 2, 1])
        with pytest.raises(InvalidInputError, match="has no order"):
            collection.update({1, 2, 3}, X)
        collection.delete({1, 2})
        assert list(collection) == [3]
        collection.upsert({4: "d", 5: "e"}.keys(), X[:2])
        collection.upsert((id for id in (6, 7)), X[:2])
        assert sorted(collection) == [3, 4, 5, 6, 7]


def test_ids_given_in_a_list_stay_the_callers(tmp_path):
    ids = [1, 2, 3]
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert(ids, X, [1, 2, 1])
        ids.clear()
        assert sorted(collection) == [1, 2, 3]


def test_payloads_come_from_columns_too(tmp_path):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        for payload in (pd.Series(["a", None, "b"]), pl.Series(["a", None, "b"]), pa.array(["a", None, "b"])):
            collection.upsert([1, 2, 3], X, [1, 2, 1], payload)
            assert [item.payload for item in collection.get([1, 2, 3])] == ["a", None, "b"]


PRICES = {"price": [1.5, None, 2.5], "day": [date(2026, 1, 31), None, None], "n": [1, 2, 3], "name": ["a", None, "b"]}
ROWS_OF_PRICES = [
    {"price": 1.5, "day": "2026-01-31", "n": 1, "name": "a"},
    {"price": None, "day": None, "n": 2, "name": None},
    {"price": 2.5, "day": None, "n": 3, "name": "b"},
]


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame(PRICES), pd.DataFrame(PRICES).convert_dtypes(), pl.DataFrame(PRICES), pa.table(PRICES)],
    ids=["pandas", "pandas, nullable", "polars", "arrow"],
)
def test_a_payload_from_a_data_frame_is_a_dict_per_row(tmp_path, frame):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert([1, 2, 3], X, [1, 2, 1], frame)
        assert [item.payload for item in collection.get([1, 2, 3])] == ROWS_OF_PRICES
        one = frame.select(["price"]) if isinstance(frame, (pl.DataFrame, pa.Table)) else frame[["price"]]
        collection.upsert([1, 2, 3], X, [1, 2, 1], one)
        assert [item.payload for item in collection.get([1, 2, 3])] == [{"price": 1.5}, {"price": None}, {"price": 2.5}]


def test_a_payload_is_plain_json():
    given = [
        {
            "n": np.int64(3),
            "x": np.float32(0.5),
            "nan": float("nan"),
            "inner": [np.nan, {"when": datetime(2026, 1, 1)}],
        },
        np.array([1, 2]),
        pd.NA,
    ]
    assert records(given, 3) == [
        {"n": 3, "x": 0.5, "nan": None, "inner": [None, {"when": "2026-01-01T00:00:00"}]},
        [1, 2],
        None,
    ]
    assert records(pd.Series(pd.to_datetime(["2026-01-01", None])), 2) == ["2026-01-01T00:00:00", None]
    assert records([{"big": BIG, 1: Level.LOW, "word": Colour.RED}], 1) == [{"big": BIG, "1": 1, "word": "red"}]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([None, {"a": 1, "price": object()}], r"row 1, key 'price': object"),
        (pl.DataFrame({"price": [Decimal(1), Decimal(2)]}), r"row 0, key 'price': Decimal"),
        ([1.0, float("inf")], "row 1: Infinity"),
        ([{(1, 2): 3}, None], "row 0: keys must be"),
        ([1], "not a list of 2 values"),
        (pd.DataFrame({"a": [1]}), "not a list of 2 values"),
        ("ab", "not a list of 2 values"),
        (pl.DataFrame({"a": [1, 2]}).lazy(), r"pass payload\.collect\(\)"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "a column name twice"),
    ],
)
def test_a_payload_that_is_not_json_is_refused_with_its_row_and_key(payload, message):
    with pytest.raises(InvalidInputError, match=message):
        records(payload, 2)


# ---------------------------------------------------------------------- vectors

TABLE = np.array([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]], np.float32)
LISTS = TABLE.tolist()
ROWS = [np.array(row, np.float32) for row in LISTS]
FLOATS = pa.float32()
VECTORS = [
    TABLE,
    LISTS,
    tuple(map(tuple, LISTS)),
    ROWS,
    np.asfortranarray(TABLE),
    TABLE.astype(">f4"),
    TABLE.astype(np.float16),
    TABLE.astype(np.float64),
    TABLE.astype(np.int8),
    TABLE.astype(object),
    TABLE.view(np.matrix),
    pd.DataFrame(TABLE),
    pd.DataFrame(TABLE, columns=list("abc")).convert_dtypes(),
    pd.DataFrame(TABLE, columns=list("abc")).astype({"a": "Int64", "b": "Float32"}),
    pd.Series(LISTS),
    pd.Series(ROWS, index=["x", "y"]),
    pd.Series(ROWS, dtype=pd.ArrowDtype(pa.list_(FLOATS))),
    pd.DataFrame({"embedding": ROWS})["embedding"],
    pd.Series(ROWS).to_numpy(),
    pl.DataFrame(TABLE),
    pl.Series(LISTS),
    pl.Series(LISTS, dtype=pl.List(pl.Float32)),
    pl.Series(LISTS, dtype=pl.Array(pl.Float32, 3)),
    pl.Series(TABLE.astype(int).tolist(), dtype=pl.List(pl.Int64)),
    pl.concat([pl.Series([[0.0] * 3]), pl.Series(LISTS)])[1:],
    pa.array(LISTS),
    pa.array(LISTS, pa.large_list(FLOATS)),
    pa.array(LISTS, pa.list_(FLOATS, 3)),
    pa.array([[0.0] * 3, *LISTS], pa.list_(FLOATS, 3))[1:],
    pa.array([[0.0] * 3, *LISTS])[1:],
    pa.chunked_array([LISTS[:1], LISTS[1:]]),
    pa.chunked_array([pa.array(LISTS[:1], pa.list_(FLOATS, 3)), pa.array(LISTS[1:], pa.list_(FLOATS, 3))]),
    pa.FixedShapeTensorArray.from_numpy_ndarray(TABLE),
    pa.table(dict(zip("abc", TABLE.T, strict=True))),
    pa.record_batch(dict(zip("abc", TABLE.T, strict=True))),
    Tensor(TABLE),
    Tensor(TABLE, "torch.bfloat16"),
    Tensor(TABLE, requires_grad=True),
    Tensor(TABLE, "torch.bfloat16", requires_grad=True),
    [Tensor(row, "torch.bfloat16", requires_grad=True) for row in ROWS],
]
# What is made of a tensor of PyTorch, which takes seconds to import.
TORCH_VECTORS = [
    lambda tensor: tensor,
    lambda tensor: tensor.bfloat16(),
    lambda tensor: tensor.half(),
    lambda tensor: tensor.clone().requires_grad_(),
    lambda tensor: tensor.bfloat16().requires_grad_(),
    lambda tensor: list(tensor.bfloat16()),
    lambda tensor: list(tensor.clone().requires_grad_()),
    lambda tensor: tensor.T.contiguous().T,
]


@pytest.mark.slow
@pytest.mark.parametrize("make", TORCH_VECTORS)
def test_vectors_of_torch_are_taken_as_the_table_they_are(tmp_path, make):
    tensor = pytest.importorskip("torch").tensor(LISTS)
    test_vectors_are_taken_as_the_table_they_are(tmp_path, make(tensor))


@pytest.mark.parametrize("given", VECTORS, ids=lambda given: f"{type(given).__module__}.{type(given).__name__}")
def test_vectors_are_taken_as_the_table_they_are(tmp_path, given):
    hasher = HCOH(8, random_state=0).partial_fit(TABLE, ["a", "b"])
    assert np.array_equal(hasher.transform(given), hasher.transform(TABLE))
    assert np.array_equal(hasher.snapshot().encode(given), hasher.transform(TABLE))
    learned = HCOH(8, random_state=0).partial_fit(given, ["a", "b"])
    assert np.allclose(learned.project(TABLE), hasher.project(TABLE), atol=1e-5)
    assert LSH(8, random_state=0).fit(given).n_features_in_ == 3
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert([1, 2], given, ["a", "b"])
        assert np.array_equal([item.vectors for item in collection.get([1, 2])], TABLE)
        collection.update([1, 2], given)
        assert len(collection.search(given, k=1).ids) == 2


ONE = TABLE[0]
SINGLE = [
    ONE,
    ONE.tolist(),
    tuple(ONE.tolist()),
    pd.Series(ONE),
    pd.Series(ONE, index=list("abc")),
    pd.Series(ONE.tolist(), dtype=object),
    pl.Series(ONE),
    pa.array(ONE),
    pa.chunked_array([ONE[:1], ONE[1:]]),
    Tensor(ONE),
    Tensor(ONE, "torch.bfloat16", requires_grad=True),
]


@pytest.mark.parametrize("given", SINGLE, ids=lambda given: f"{type(given).__module__}.{type(given).__name__}")
def test_one_vector_alone_is_taken_where_an_array_is(tmp_path, given):
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert(1, given, "a")
        assert np.array_equal(collection.get(1)[0].vectors, ONE)
        assert collection.search(given, k=1).ids == [1]
        assert collection.range_search(given, 0).ids == [1]
        collection.update(1, given)
    assert HCOH(8, random_state=0).partial_fit(given, "a").n_samples_seen_ == 1


NO_VECTORS = [
    (pd.Series([[1.0, 2.0], None]), "no vector in row 1"),
    (pd.Series([None, [1.0, 2.0]]), "no vector in row 0"),
    (pl.Series([[1.0, 2.0], None]), "no vector in row 1"),
    (pl.Series([[1.0, 2.0], None], dtype=pl.Array(pl.Float32, 2)), "no vector in row 1"),
    (pa.array([[1.0, 2.0], None]), "no vector in row 1"),
    (pa.array([[1.0, 2.0], None], pa.list_(FLOATS, 2)), "no vector in row 1"),
    (pa.chunked_array([[[1.0, 2.0]], [None]]), "no vector in row 1"),
    ([[1.0, 2.0], None], "no vector in row 1"),
    (pd.Series([[1.0, 2.0], [1.0]]), "different lengths: 1 numbers in row 1, 2 in row 0"),
    (pl.Series([[1.0, 2.0], [1.0]]), "different lengths: 1 numbers in row 1, 2 in row 0"),
    (pa.array([[1.0, 2.0], [1.0]]), "different lengths: 1 numbers in row 1, 2 in row 0"),
    (pa.chunked_array([[[1.0, 2.0]], [[1.0]]]), "different lengths: 1 numbers in row 1, 2 in row 0"),
    ([[1.0, 2.0], [1.0]], "different lengths: 1 numbers in row 1, 2 in row 0"),
    ([np.ones(2), np.ones(3)], "different lengths: 3 numbers in row 1, 2 in row 0"),
    (pd.Series([[1.0, None], [1.0, 2.0]]), "NaN or inf: nan at row 0, feature 1"),
    (pl.Series([[1.0, 2.0], [1.0, None]]), "NaN or inf: nan at row 1, feature 1"),
    (pa.array([[1.0, 2.0], [1.0, None]]), "NaN or inf: nan at row 1, feature 1"),
    (pd.DataFrame({"a": [1, None], "b": [1, 2]}, dtype="Int64"), "NaN or inf: nan at row 1, feature 0"),
    (pl.DataFrame({"a": [1, None], "b": [1, 2]}), "NaN or inf: nan at row 1, feature 0"),
    (pa.table({"a": [1, None], "b": [1, 2]}), "NaN or inf: nan at row 1, feature 0"),
    (pd.DataFrame({"embedding": [[1.0, 2.0], [3.0, 4.0]]}), "one column of lists; pass the column"),
    (pl.DataFrame({"a": [1.0, 2.0]}).lazy(), r"pass X\.collect\(\)"),
    (np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]]), r"X\.filled"),
    (np.ma.masked_array(np.ones((2, 2))), r"X\.filled"),
    (sparse.csr_matrix(np.eye(2)), r"X\.toarray"),
    (sparse.coo_array(np.eye(2)), r"X\.toarray"),
    (Tensor(TABLE, device="cuda:0"), r"X is a tensor on cuda:0; pass X\.cpu\(\)"),
    ([Tensor(row, device="cuda:1") for row in ROWS], r"cuda:1; pass X\.cpu\(\)"),
    (pd.DataFrame({"a": ["x", "y"]}), "not numbers"),
    (np.array(["a", "b"]), "2D"),
]


@pytest.mark.parametrize(("given", "message"), NO_VECTORS)
def test_what_is_no_table_of_numbers_is_refused_with_its_row(tmp_path, given, message):
    with pytest.raises(InvalidFeaturesError, match=message):
        HCOH(8, random_state=0).partial_fit(given, ["a", "b"])
    with pytest.raises(InvalidFeaturesError, match=message):
        LSH(8, random_state=0).fit(given)
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        with pytest.raises(InvalidFeaturesError, match=re.sub(r"\bX\b", "vectors", message)):
            collection.upsert([1, 2], given, ["a", "b"])
        assert len(collection) == 0


def test_vectors_are_not_changed_or_copied_needlessly(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, TABLE)
    encoder = Encoder(np.eye(3, dtype=np.float32))
    assert encoder.encode(np.load(path, mmap_mode="r")).shape == (2, 1)
    tensor = Tensor(TABLE.copy())
    encoder.encode(tensor)
    assert np.array_equal(tensor.values, TABLE)
    assert as_array(TABLE) is TABLE
    assert np.shares_memory(as_array(tensor), tensor.values)


# ---------------------------------------------------------------------- feature names

NAMES = ["width", "height", "depth"]
MAKERS = {
    "pandas": lambda rows, names: pd.DataFrame(rows, columns=names),
    "polars": lambda rows, names: pl.DataFrame(rows, schema=names),
    "arrow": lambda rows, names: pa.table(dict(zip(names, np.asarray(rows).T, strict=True))),
}
FRAMES = pytest.mark.parametrize("frame", MAKERS.values(), ids=MAKERS)
ORDER = "same order as they were in fit"
WRONG_NAMES = [
    (NAMES[::-1], ORDER),
    (["width", "height", "weight"], r"unseen at fit time:\n- weight\n.*now missing:\n- depth"),
    (["width", "height"], r"now missing:\n- depth"),
    ([*NAMES, "weight"], r"unseen at fit time:\n- weight"),
]


def wrong_tables(frame):
    for names, message in WRONG_NAMES:
        yield frame(RNG.normal(size=(2, len(names))), names), message


@FRAMES
@pytest.mark.parametrize("method", [HCOH, HROH, LSH])
def test_hashers_and_their_encoders_check_feature_names(tmp_path, frame, method):
    X, y = RNG.normal(size=(40, 3)), [0, 1] * 20
    hasher = make(method).partial_fit(frame(X, NAMES), y)
    assert hasher.feature_names_in_.tolist() == NAMES
    hasher.save(tmp_path / "hasher")
    hasher.snapshot().save(tmp_path / "encoder")
    encoder = Encoder.load(tmp_path / "encoder")
    assert encoder.feature_names == tuple(NAMES)
    for each in (hasher, load_hasher(tmp_path / "hasher")):
        before = each.to_bytes()
        for wrong, message in wrong_tables(frame):
            for call in (lambda t, e=each: e.partial_fit(t, [0, 1]), each.transform, each.project):
                with pytest.raises(InvalidFeaturesError, match=f"(?s){message}"):
                    call(wrong)
            for use in (encoder.encode, encoder.project, encoder.encode_asymmetric):
                with pytest.raises(InvalidFeaturesError, match=f"(?s){message}"):
                    use(wrong)
        assert each.to_bytes() == before
        each.partial_fit(frame(X, NAMES), y)
    assert np.array_equal(encoder.encode(frame(X, NAMES)), encoder.encode(X))
    assert hasher.fit(X, y).n_features_in_ == 3
    assert not hasattr(hasher, "feature_names_in_")
    assert hasher.snapshot().feature_names is None
    assert hasher.fit(frame(X[:, :2], ["a", "b"]), y).feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("method", [HCOH, HROH, LSH])
def test_feature_names_are_those_of_scikit_learn(method):
    check_dataframe_column_names_consistency(method.__name__, make(method))


def test_rows_of_one_table_are_checked_by_their_index():
    frame = pd.DataFrame(RNG.normal(size=(3, 3)), columns=NAMES)
    hasher = HCOH(8, random_state=0).partial_fit(frame, [0, 1, 0])
    hasher.partial_fit(frame.iloc[0], 1)
    with pytest.raises(InvalidFeaturesError, match=ORDER):
        hasher.partial_fit(frame[NAMES[::-1]].iloc[0], 1)


def test_names_that_come_later_are_kept_from_then_on():
    X = RNG.normal(size=(2, 3))
    hasher = HCOH(8, random_state=0).partial_fit(X, [0, 1])
    hasher.partial_fit(pd.DataFrame(X, columns=NAMES), [0, 1])
    with pytest.raises(InvalidFeaturesError, match=ORDER):
        hasher.partial_fit(pd.DataFrame(X, columns=NAMES[::-1]), [0, 1])


def test_names_that_are_not_strings_are_not_kept_and_mixed_ones_refused():
    hasher = LSH(8, random_state=0).fit(pd.DataFrame(X))
    assert not hasattr(hasher, "feature_names_in_")
    mixed = pd.DataFrame(X, columns=["a", 1, 2, 3])
    for call in (LSH(8).fit, LSH(8).partial_fit, hasher.transform, hasher.snapshot().encode):
        with pytest.raises(InvalidFeaturesError, match="only supported if all input features have string names"):
            call(mixed)


def test_hashers_that_learned_from_other_names_do_not_merge():
    X, y = RNG.normal(size=(40, 3)), [0, 1] * 20
    first = HROH(8, random_state=0, bandwidth=1.0).partial_fit(pd.DataFrame(X, columns=NAMES), y)
    second = HROH(8, random_state=0, bandwidth=1.0).partial_fit(pd.DataFrame(X, columns=NAMES[::-1]), y)
    with pytest.raises(InvalidInputError, match="names of the columns of X is"):
        first.merge(second)
    with pytest.raises(InvalidFeaturesError, match=ORDER):
        first.empty_clone().partial_fit(pd.DataFrame(X, columns=NAMES[::-1]), y)
    assert first.with_bits(16).feature_names_in_.tolist() == NAMES


@FRAMES
def test_a_collection_checks_feature_names(tmp_path, frame):
    X, y = RNG.normal(size=(20, 3)).astype(np.float32), [0, 1] * 10
    with Collection.open(tmp_path / "a.oh", HCOH(8, random_state=0)) as collection:
        collection.upsert(range(20), frame(X, NAMES), y)
    for readonly in (False, True):
        with Collection.open(tmp_path / "a.oh", readonly=readonly) as collection:
            assert collection.search(X[:2]).ids == collection.search(frame(X[:2], NAMES)).ids
            for wrong, message in wrong_tables(frame):
                calls = [collection.search, lambda t, c=collection: c.range_search(t, 1)]
                if not readonly:
                    calls.append(lambda t, c=collection: c.upsert([50, 51], t, [0, 1]))
                    calls.append(lambda t, c=collection: c.update([0, 1], t))
                for call in calls:
                    with pytest.raises(InvalidFeaturesError, match=f"(?s){message}"):
                        call(wrong)
            assert len(collection) == 20
