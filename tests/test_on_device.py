"""Arrays of other libraries are computed with where they are: on a GPU, or on devices that stand for one."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import onlinehash as oh
from onlinehash import HCOH, HROH, Encoder, FlatIndex
from onlinehash._internal import arrays as _arrays
from onlinehash._internal.arrays import is_on_device, to_host
from onlinehash._internal.validation import as_array
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError
from onlinehash.hashers import HASHERS


def strict(array):
    xp = pytest.importorskip("array_api_strict")
    return xp.asarray(np.array(array), device=xp.Device("device1"))


def torch_cpu(array):
    return pytest.importorskip("torch").asarray(np.array(array))


def torch_gpu(array):
    return pytest.importorskip("torch").asarray(np.array(array), device="cuda")


def cupy(array):
    return pytest.importorskip("cupy").asarray(array)


def has_gpu():
    try:
        import torch

        return torch.cuda.is_available()
    except ImportError:
        return False


@pytest.fixture(
    params=[
        strict,
        pytest.param(torch_cpu, marks=pytest.mark.slow),  # PyTorch takes seconds to import
        *(pytest.param(put, marks=[pytest.mark.gpu, pytest.mark.slow]) for put in (torch_gpu, cupy)),
    ],
    ids=lambda put: put.__name__,
)
def put(request, monkeypatch):
    """Puts arrays of the host on a device; PyTorch's own CPU is taken for one."""
    if request.param in (torch_gpu, cupy) and not has_gpu():
        pytest.skip("There is no GPU.")
    if request.param is torch_cpu:
        monkeypatch.setattr(_arrays, "_HOST", "no device is the host")
    request.param(np.zeros(1))
    return request.param


@pytest.fixture(scope="module")
def data():
    X, y = oh.load_dataset("digits").split().stream
    return np.asarray(X, np.float64)[:1400], y[:1400]


def sums_of(hasher):
    statistics = hasher._sums.complete()
    gram, sums = (to_host(each) if is_on_device(each) else each for each in (statistics.gram, statistics.sums))
    return gram, sums, statistics.counts


def assert_same_sums(one, other):
    for mine, theirs in zip(sums_of(one), sums_of(other), strict=True):
        assert np.abs(mine - theirs).max() <= 1e-12 * np.abs(theirs).max()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"general_bits": 4},
        {"general_bits": 4, "confidence_bits": 2},
        {"features": "none", "decay": 0.999},
        {"preprocess": "running"},
        {"preprocess": np.linspace(0, 9, 64), "sharpness": 3.0},
    ],
    ids=str,
)
def test_a_stream_in_batches_is_learned_as_on_the_host(put, data, params):
    X, y = data
    host = HROH(12, random_state=0, **{"n_components": 48} | params).partial_fit(X[:1200], y[:1200])
    there = HROH(**host.get_params())
    for start in range(0, 1200, 300):
        there.partial_fit(put(X[start : start + 300]), put(y[start : start + 300]))
    assert_same_sums(there, host)
    encoder = there.snapshot()
    codes, values = encoder.encode(put(X[1200:])), encoder.project(put(X[1200:]))
    assert is_on_device(codes)
    assert type(codes) is type(put(X))
    assert np.array_equal(to_host(codes), host.snapshot().encode(X[1200:]))
    assert np.array_equal(to_host(codes), encoder.encode(X[1200:]))
    assert np.allclose(to_host(values), encoder.project(X[1200:]))
    assert np.allclose(to_host(encoder.encode_asymmetric(put(X[1200:]))), encoder.encode_asymmetric(X[1200:]))
    assert there.score(put(X[1200:]), put(y[1200:])) == host.score(X[1200:], y[1200:])


def test_weights_several_labels_and_rows_without_one_count_as_on_the_host(put, data):
    X, y = data
    weights = np.linspace(0.1, 3, 400)
    labels = [[int(label), int(label) + 10] if i % 3 else [int(label)] for i, label in enumerate(y[:400])]
    labels[7] = labels[300] = []
    pairs = [
        (HROH(8, n_components=32, random_state=0), lambda h, to: h.partial_fit(to(X[:400]), y[:400], to(weights))),
        (HROH(8, n_components=32, random_state=0), lambda h, to: h.partial_fit(to(X[:400]), labels)),
        (HROH(8, n_components=32, random_state=0), lambda h, to: h.fit(to(X[:5]), y[:5])),
    ]
    for hasher, learn in pairs:
        there = learn(copy.deepcopy(hasher), put)
        here = learn(copy.deepcopy(hasher), np.asarray)
        assert np.array_equal(there.transform(X[400:600]), here.transform(X[400:600]))
        assert (there.n_samples_seen_, there.n_unlabelled_) == (here.n_samples_seen_, here.n_unlabelled_)


@pytest.mark.parametrize("balance", [1.0, 0.5])
@pytest.mark.parametrize("lists", [False, True])
def test_classes_are_scored_and_rows_left_out_as_on_the_host(put, data, balance, lists):
    X, y = data[0][:700], data[1][:700]
    labels = [[int(label), (int(label) + 1) % 10][: 1 + i % 2] for i, label in enumerate(y)] if lists else y
    here = HROH(12, n_components=48, balance=balance, random_state=0).partial_fit(X, labels)
    there = HROH(**here.get_params()).partial_fit(put(X), labels)
    expected = here.leave_one_out(X, labels)
    for rows in (X, put(X)):
        without, scores = there.leave_one_out(rows, labels), there.decision_function(rows)
        assert isinstance(without, np.ndarray)
        assert isinstance(scores, np.ndarray)
        assert np.allclose(without, expected, atol=1e-8)
        assert np.allclose(scores, here.decision_function(X), atol=1e-8)
        assert np.array_equal(there.predict(rows), here.predict(X))
    codes, scores = there.snapshot().encode_and_score(put(X))
    assert is_on_device(codes)
    assert np.allclose(to_host(scores), here.decision_function(X), atol=1e-8)


def test_a_hasher_moves_to_the_device_of_its_rows_and_stays_there(put, data, tmp_path):
    X, y = data
    hasher = HROH(12, n_components=48, random_state=0).partial_fit(X[:500], y[:500])
    hasher.partial_fit(put(X[500:900]), y[500:900])
    assert is_on_device(hasher._sums.statistics.gram)
    hasher.partial_fit(X[900:], y[900:]).partial_fit(put(X[0]), y[0])
    assert is_on_device(hasher._sums.statistics.gram)
    host = HROH(12, n_components=48, random_state=0).partial_fit(X, y).partial_fit(X[0], y[0])
    assert_same_sums(hasher, host)
    hasher.save(tmp_path / "hasher.oh")
    loaded = oh.load_hasher(tmp_path / "hasher.oh")
    assert not is_on_device(loaded._sums.statistics.gram)
    assert np.array_equal(loaded.transform(X), hasher.transform(X))
    assert np.array_equal(to_host(loaded.partial_fit(put(X), y).transform(put(X))), loaded.transform(X))


def test_rows_are_unlearned_and_hashers_merged(put, data):
    X, y = data
    host = HROH(12, n_components=48, random_state=0).partial_fit(X[:900], y[:900])
    there = HROH(12, n_components=48, random_state=0).partial_fit(put(X), put(y))
    there.unlearn(put(X[900:]), y[900:])
    assert_same_sums(there, host)
    with pytest.raises(InvalidInputError, match="were not learned"):
        there.unlearn(put(5 * X[900:1000, ::-1].copy()), np.sort(y[900:1000]))
    assert_same_sums(there, host)
    parts = [there.empty_clone().partial_fit(to(X[900:]), y[900:]) for to in (put, np.asarray)]
    for part in parts:
        whole = copy.deepcopy(there).merge(part)
        assert_same_sums(whole, copy.deepcopy(host).merge(part))
    assert_same_sums(copy.deepcopy(host).merge(parts[0]), HROH(12, n_components=48, random_state=0).partial_fit(X, y))


@pytest.mark.parametrize("name", sorted(HASHERS))
def test_the_encoder_of_every_method_encodes_on_the_device(put, data, name):
    X, y = data
    small = {"n_components": 32} if name == "hroh" else {}
    hasher = oh.make_hasher(name, n_bits=12, random_state=0, **small).partial_fit(X[:400], y[:400])
    encoder = hasher.snapshot()
    assert np.array_equal(to_host(encoder.encode(put(X[400:500]))), encoder.encode(X[400:500]))
    assert np.array_equal(to_host(hasher.transform(put(X[:9]))), hasher.transform(X[:9]))
    for output in ("bits", "signs"):
        hasher.set_params(output=output)
        assert np.array_equal(to_host(hasher.transform(put(X[:9]))), hasher.transform(X[:9]))


def test_the_likely_ones_of_many_classes_are_those_of_the_host(put):
    X = np.random.default_rng(0).normal(size=(1200, 20))
    there = HROH(24, features="none", assignment="arrival", random_state=0).partial_fit(put(X), np.arange(1200))
    encoder = there.snapshot()
    codes, scores = map(to_host, encoder.encode_and_score(put(X[:200])))
    expected = encoder.class_scores(X[:200])
    assert np.array_equal(scores != 0.0, expected != 0.0)
    assert np.allclose(scores, expected, atol=1e-9)
    assert np.array_equal(codes, encoder.encode(X[:200]))


def test_methods_that_loop_on_the_host_say_so_and_take_its_memory(put, data):
    X, y = data
    hasher = HCOH(12, random_state=0)
    with pytest.raises(InvalidFeaturesError, match=r"HCOH learns on the CPU, by compiled loops; pass X\.(cpu|get)\(\)"):
        hasher.partial_fit(put(X), y)
    with pytest.raises(InvalidInputError, match="only GpuIndex takes"):
        FlatIndex(12).search(put(np.zeros((1, 2), np.uint8)), 1)
    if put is not torch_cpu:
        with pytest.raises(InvalidFeaturesError, match=r"pass X\.(cpu|get)\(\)"):
            as_array(put(X))
    assert not hasattr(hasher, "n_samples_seen_")


@pytest.mark.filterwarnings("ignore:overflow encountered")  # by NumPy, below array-api-strict
def test_bad_input_is_refused_as_on_the_host(put, data):
    X, y = data
    hasher = HROH(12, n_components=32, random_state=0).partial_fit(put(X[:300]), y[:300])
    before = sums_of(hasher)
    bad = X[:50].copy()
    bad[3, 7] = np.nan
    for rows, labels, message, error in [
        (bad, y[:50], "nan at row 3, feature 7", InvalidFeaturesError),
        (X[:50, :9], y[:50], "X has 9 features", InvalidFeaturesError),
        (X[:50], y[:49], "inconsistent numbers of samples", InvalidLabelsError),
        (X[:50, 0], y[:50], "Expected a 2D array", InvalidFeaturesError),
        (X[:50].astype(np.complex128), y[:50], "Complex data", InvalidFeaturesError),
    ]:
        with pytest.raises(error, match=message):
            hasher.partial_fit(put(rows), labels)
    for mine, theirs in zip(sums_of(hasher), before, strict=True):
        assert np.array_equal(mine, theirs)
    encoder = hasher.snapshot()
    with pytest.raises(InvalidFeaturesError, match="nan at row 3"):
        encoder.encode(put(bad))
    with pytest.raises(InvalidFeaturesError, match="overflow float32"):
        Encoder(np.full((1, 1), 1e30, np.float32)).encode(put(np.array([[1e30]], np.float32)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_any_precision_is_taken(put, data, dtype):
    if put is strict and dtype is np.float16:
        pytest.skip("The array API has no half precision.")
    X, y = (16 * data[0]).astype(dtype), data[1]
    there = HROH(12, n_components=48, random_state=0).partial_fit(put(X[:1000]), y[:1000])
    here = HROH(12, n_components=48, random_state=0).partial_fit(X[:1000], y[:1000])
    assert there._dtype == here._dtype
    assert (to_host(there.transform(put(X[1000:]))) == here.transform(X[1000:])).mean() > 0.999


def test_dlpack_in_the_memory_of_the_host_is_taken_by_every_method(data):
    class OnlyDlpack:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    X, y = data
    for name in ("hcoh", "osh", "itq"):
        learned = [oh.make_hasher(name, n_bits=12, random_state=0).partial_fit(rows, y) for rows in (X, OnlyDlpack(X))]
        assert np.array_equal(*(hasher.transform(X[:50]) for hasher in learned))


@pytest.mark.slow
def test_arrays_of_the_host_load_no_other_library():
    program = (
        "import sys, numpy as np, onlinehash as oh; X = np.eye(4).repeat(9, 0); "
        "h = oh.HROH(8, n_components=16).partial_fit(X, list(range(36))); oh.FlatIndex(8).upsert(h.transform(X)); "
        "print(sorted({'torch', 'cupy', 'array_api_compat', 'array_api_strict'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e200])
def test_very_short_and_very_long_rows_are_scaled_like_any_other(put, scale):
    X = np.random.default_rng(0).standard_normal((20, 9))
    y = np.arange(20) % 3
    hasher = HROH(8, n_components=32, random_state=0).partial_fit(put(X * scale), y)
    expected = HROH(8, n_components=32, random_state=0).partial_fit(X, y).project(X)
    assert np.abs(hasher.project(X * scale) - expected).max() < 1e-9
    assert np.abs(to_host(hasher.project(put(X * scale))) - expected).max() < 1e-9
    with pytest.raises(InvalidFeaturesError, match=r"Row 3 of X is longer than 6e\+102"):
        HROH(8, preprocess="none").partial_fit(put(np.where(np.arange(20)[:, None] == 3, 1e150, X)), y)
