import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.reference import hcoh as reference

from onlinehash import HCOH, load_dataset, unpack_signs
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError, NotLearnedError
from onlinehash.hashers import load_hasher, make_hasher


def stream(n=150, d=9, n_classes=6, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return (rng.normal(size=(n_classes, d))[y] * 2 + rng.normal(size=(n, d))).astype(dtype), y


@pytest.mark.parametrize("batch_size", [1, 3, 32, 33, 70])
@pytest.mark.parametrize("fit_bias", [False, True])
@pytest.mark.parametrize("n_bits", [5, 16])
def test_learning_equals_the_formulas_batch_by_batch(n_bits, fit_bias, batch_size):
    X, y = stream()
    hasher = HCOH(n_bits, batch_size=batch_size, fit_bias=fit_bias, random_state=0)
    start = HCOH(n_bits, learning_rate=1e-300, random_state=0).partial_fit(X[:1], y[:1]).weights_
    hasher.partial_fit(X, y)
    whole = len(X) - len(X) % batch_size
    targets = dict(zip(hasher.classes_, hasher.codewords_, strict=True))
    rows, mean = reference.preprocess_running(X)
    T = np.array([targets[label] for label in y], float)
    W = reference.learn(rows[:whole], T[:whole], start, 0.2, batch_size, fit_bias)
    assert np.abs(hasher.weights_ - W[: X.shape[1]]).max() < 1e-12
    if fit_bias:
        assert np.abs(hasher.intercept_ - W[-1]).max() < 1e-12
    # A snapshot includes the rows that wait, as a shorter batch.
    W = reference.learn(rows, T, start, 0.2, batch_size, fit_bias)
    encoder = hasher.snapshot()
    assert np.abs(encoder.weights - W[: X.shape[1]]).max() < 1e-12
    assert np.abs(encoder.features.mean - mean).max() < 1e-12


def test_starting_weights_are_gaussian_with_unit_columns():
    X, y = stream()
    W = HCOH(200, learning_rate=1e-300, random_state=0).partial_fit(X, y).weights_
    assert np.allclose(np.linalg.norm(W, axis=0), 1)


def test_an_instance_may_be_one_row_with_one_label():
    X, y = stream(20)
    rows = HCOH(8, random_state=0)
    for x, label in zip(X, y, strict=True):
        rows.partial_fit(x, label)
    assert np.allclose(rows.weights_, HCOH(8, random_state=0).partial_fit(X, y).weights_)


def test_classes_are_listed_in_order_of_first_sight():
    X, _ = stream(4)
    hasher = HCOH(8, random_state=0).partial_fit(X, ["dog", "cat", "dog", "owl"])
    assert hasher.classes_.tolist() == ["dog", "cat", "owl"]
    assert hasher.codewords_.shape == (3, 8)


def test_more_classes_than_bits_make_the_codebook_grow_and_move_no_codeword():
    X, _ = stream(80)
    hasher = HCOH(8, random_state=0).partial_fit(X[:8], np.arange(8))
    before = hasher.codewords_
    hasher.partial_fit(X[8:], np.arange(8, 80))
    assert np.array_equal(hasher.codewords_[:8], before)
    assert len(hasher.classes_) == 80


def test_an_explicit_codebook_is_learned_towards_and_refuses_other_labels():
    X, y = stream(200, n_classes=2)
    words = {0: [1, 1, -1, -1], 1: [-1, 1, 1, -1]}
    hasher = HCOH(4, codebook=words, random_state=0).partial_fit(X, y)
    assert hasher.codewords_.tolist() == [words[label] for label in hasher.classes_.tolist()]
    with pytest.raises(InvalidLabelsError, match="no codeword for label 7"):
        hasher.partial_fit(X[:2], [0, 7])
    assert hasher.n_samples_seen_ == 200
    fresh = HCOH(4, codebook=words)
    with pytest.raises(InvalidLabelsError):
        fresh.partial_fit(X[:2], [0, 7])
    with pytest.raises(NotLearnedError):
        fresh.snapshot()


def test_starting_weights_may_be_given():
    X, y = stream(1)
    W = np.ones((9, 4))
    hasher = HCOH(4, init=W, learning_rate=1e-300, preprocess="none").partial_fit(X, y)
    assert np.array_equal(hasher.weights_, W)
    with pytest.raises(InvalidInputError, match=r"init has shape \(9, 4\)"):
        HCOH(5, init=W).partial_fit(X, y)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"n_bits": 0}, "n_bits=0 is not positive"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 is not positive"),
        ({"learning_rate": "fast"}, "learning_rate='fast' is not a number"),
        ({"batch_size": 0}, "batch_size=0 is not positive"),
        ({"batch_size": 2.5}, "batch_size=2.5 is not an integer"),
        ({"codebook": "haddamard"}, "Did you mean 'hadamard'"),
        ({"preprocess": "some"}, "preprocess='some'"),
        ({"preprocess": np.zeros(3)}, r"mean of shape \(3,\)"),
        ({"init": "zeros"}, "init='zeros'"),
        ({"init": np.full((9, 32), np.nan)}, "init contains NaN"),
        ({"random_state": -3}, "random_state=-3"),
        ({"random_state": "seed"}, "random_state='seed'"),
    ],
)
def test_a_faulty_parameter_is_named_and_leaves_no_trace(params, message):
    hasher = HCOH(**params)
    before = dict(vars(hasher))
    with pytest.raises(ValueError, match=message):
        hasher.partial_fit(*stream())
    assert vars(hasher).keys() == before.keys()


@pytest.mark.parametrize(
    "y, message",
    [
        ([0.5, 1.0], "y holds 0.5"),
        ([np.inf, 1.0], "y holds inf"),
        ([None, 1, "a"], "y mixes"),
        ([1, "a"], "y mixes"),
        (None, "y is None"),
        ([1, 2, 3], "3 labels, X has 2 rows"),
        ([[1, "a"], [2]], "y mixes"),
        ([[1, 2]], "labels for 1 rows, X has 2"),
        (np.array([[1, 2], [0, 1]]), "0/1 indicator"),
        (np.array([b"a", b"b"]), "y holds bytes"),
        (np.array([2**63, 1], np.uint64), "beyond int64"),
    ],
)
def test_faulty_labels_are_refused(y, message):
    X, _ = stream(3 if y is not None and len(y) == 3 and message == "y mixes" else 2)
    with pytest.raises(InvalidLabelsError, match=message):
        HCOH().partial_fit(X, y)


def test_float_labels_that_are_whole_numbers_are_integers():
    X, _ = stream(2)
    assert HCOH(8).partial_fit(X, [1.0, 2.0]).classes_.tolist() == [1, 2]


def test_values_too_large_for_the_precision_learned_in_are_refused():
    X, y = stream(4, dtype=np.float32)
    hasher = HCOH(8, random_state=0).partial_fit(X, y)
    with pytest.raises(InvalidFeaturesError, match="too large for float32"):
        hasher.partial_fit(np.full((1, 9), 1e300), [0])
    assert hasher.n_samples_seen_ == 4


def test_integer_features_learn_like_their_float_values():
    X, y = stream()
    whole = np.rint(X * 10)
    codes = HCOH(16, random_state=0).partial_fit(whole.astype(np.int16), y).transform(whole.astype(np.int16))
    assert np.array_equal(codes, HCOH(16, random_state=0).partial_fit(whole, y).transform(whole))


def test_half_precision_is_learned_in_single():
    X, y = stream(dtype=np.float16)
    assert HCOH(8).partial_fit(X, y).weights_.dtype == np.float32


def test_single_precision_stays_close_to_double():
    X, y = stream(1000)
    double = HCOH(16, random_state=0).partial_fit(X, y)
    single = HCOH(16, random_state=0).partial_fit(X.astype(np.float32), y)
    assert np.abs(single.weights_ - double.weights_).max() < 1e-4


def test_digits_are_retrieved_far_better_than_by_random_projections():
    split = load_dataset("digits").split()
    hasher = HCOH(32, random_state=0).partial_fit(*split.stream)
    assert hasher.score(*split.queries) > 0.9


def test_score_counts_labels_never_learned_as_wrong_and_shares_ties():
    X, y = stream(300, n_classes=2)
    hasher = HCOH(8, random_state=0).fit(X, y)
    assert hasher.score(X, y) > 0.9
    assert hasher.score(X[:5], np.full(5, 77)) == 0.0
    same = HCOH(2, codebook={0: [1, 1], 1: [1, 1]}, random_state=0).fit(X, y)
    assert same.score(X, y) == 0.5


def test_it_works_in_a_pipeline_and_in_a_grid_search():
    split = load_dataset("digits").split()
    X, y = split.stream
    pipeline = make_pipeline(StandardScaler(), HCOH(16, random_state=0)).fit(X, y)
    assert pipeline.transform(X).shape == (len(X), 2)
    search = GridSearchCV(HCOH(16, random_state=0), {"learning_rate": [1e-6, 0.2]}, cv=2).fit(X, y)
    assert search.best_params_ == {"learning_rate": 0.2}
    assert search.transform(X).shape == (len(X), 2)


def test_random_state_takes_generators_too():
    X, y = stream()
    for state in (np.random.RandomState(3), np.random.default_rng(3), None, np.int64(3)):
        assert HCOH(8, random_state=state).partial_fit(X, y).seed_ >= 0


def test_explicit_codebooks_means_and_starting_weights_survive_saving(tmp_path):
    X, y = stream(60, n_classes=2)
    words = {0: np.ones(4, int), 1: -np.ones(4, int)}
    hasher = HCOH(4, codebook=words, preprocess=X.mean(axis=0), init=np.ones((9, 4)), fit_bias=True, batch_size=8)
    hasher.partial_fit(X, y).save(tmp_path / "h.oh")
    again = load_hasher(tmp_path / "h.oh")
    assert isinstance(again, HCOH)
    assert np.array_equal(again.project(X), hasher.project(X))
    hasher.partial_fit(X, y)
    again.partial_fit(X, y)
    assert np.array_equal(again.project(X), hasher.project(X))


def test_a_hasher_without_a_seed_resumes_with_the_one_it_drew(tmp_path):
    X, _ = stream(40)
    hasher = HCOH(8).partial_fit(X[:20], np.arange(20))
    hasher.save(tmp_path / "h.oh")
    again = load_hasher(tmp_path / "h.oh")
    for each in (hasher, again):
        each.partial_fit(X[20:], np.arange(20, 40))
    assert np.array_equal(hasher.codewords_, again.codewords_)
    assert np.array_equal(hasher.transform(X), again.transform(X))


def test_get_hasher_makes_one_by_name():
    assert make_hasher("HCOH", n_bits=9).n_bits == 9
    with pytest.raises(ValueError, match=r"Unknown hasher 'hcho'. Did you mean 'hcoh'"):
        make_hasher("hcho")


LEARN_FROM_MAPPED_FILE = """
import resource, sys
import numpy as np
from onlinehash import HCOH

X = np.load(sys.argv[1], mmap_mode="r")
y = np.arange(len(X)) % 10
hasher = HCOH(8, random_state=0).partial_fit(X[:64], y[:64])
held = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")][0] * 1024
limit = held + X.nbytes // 8
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
hasher.partial_fit(X, y)
print(hasher.n_samples_seen_)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the data a process may hold")
@pytest.mark.slow
def test_learning_reads_a_mapped_file_larger_than_the_memory_it_is_given(tmp_path):
    n_rows = 100_000
    np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n_rows, 784)).flush()  # 314 MB, sparse on disk
    command = [sys.executable, "-c", LEARN_FROM_MAPPED_FILE, str(tmp_path / "X.npy")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == (str(n_rows + 64), "")


def test_codes_are_near_their_codewords_after_learning():
    X, y = stream(2000, n_classes=4)
    hasher = HCOH(16, random_state=0).partial_fit(X, y)
    words = dict(zip(hasher.classes_.tolist(), hasher.codewords_, strict=True))
    T = np.array([words[label] for label in y.tolist()])
    agreement = (unpack_signs(hasher.transform(X), 16) == T).mean()
    assert agreement > 0.85
