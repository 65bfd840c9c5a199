"""Parameters that shape what is learned are fixed by the first batch."""

import numpy as np
import pytest
from sklearn.base import clone

from onlinehash import HCOH, HROH, LSH, Collection, MIHash, load_hasher, make_hasher
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import HASHERS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 20)), RNG.integers(0, 5, 300)


@pytest.mark.parametrize("name", HASHERS)
def test_another_code_length_after_learning_is_refused_and_the_file_stays_loadable(name, tmp_path):
    small = {"n_components": 50} if name == "hroh" else {}
    hasher = make_hasher(name, n_bits=16, random_state=0, **small).fit(X, Y)
    hasher.save(tmp_path / "model.oh")
    hasher.set_params(n_bits=8)
    for use in (
        lambda: hasher.partial_fit(X, Y),
        hasher.snapshot,
        hasher.to_bytes,
        lambda: hasher.save(tmp_path / "model.oh"),
        lambda: hasher.transform(X),
    ):
        with pytest.raises(
            InvalidInputError, match=f"n_bits=8 was changed after {HASHERS[name].__name__} learned with"
        ):
            use()
    assert load_hasher(tmp_path / "model.oh").n_bits == 16
    assert hasher.fit(X, Y).snapshot().n_bits == 8
    assert hasher.partial_fit(X, Y).n_samples_seen_ == 600


def test_the_message_names_the_way_out_that_the_method_has():
    with pytest.raises(InvalidInputError, match=r"n_bits=16; call fit to start again\.$"):
        HCOH(16, random_state=0).fit(X, Y).set_params(n_bits=8).partial_fit(X, Y)
    hasher = HROH(16, n_components=50, random_state=0).fit(X, Y).set_params(n_bits=8)
    with pytest.raises(InvalidInputError, match=r"call fit to start again, or with_bits\(8\)\.$"):
        hasher.partial_fit(X, Y)
    assert hasher.with_bits(8).partial_fit(X, Y).snapshot().n_bits == 8
    hasher.set_params(n_bits=16, codebook="hadamard")
    with pytest.raises(InvalidInputError, match=r"or with_codebook\('hadamard'\)"):
        hasher.snapshot()
    assert hasher.with_codebook("hadamard").partial_fit(X, Y).n_samples_seen_ == 600


def test_no_way_of_using_a_changed_hroh_is_left_open():
    hasher = HROH(16, n_components=50, random_state=0).fit(X, Y)
    other = hasher.empty_clone().partial_fit(X, Y)
    hasher.set_params(decay=0.5)
    for use in (
        lambda: hasher.unlearn(X[:1], Y[:1]),
        lambda: hasher.leave_one_out(X[:1], Y[:1]),
        lambda: hasher.predict(X[:1]),
        lambda: hasher.merge(other),
        lambda: other.merge(hasher),
        lambda: hasher.with_bits(8),
        lambda: hasher.split_points(100),
        hasher.empty_clone,
    ):
        with pytest.raises(InvalidInputError, match=r"decay=0.5 was changed after HROH learned with decay=1.0"):
            use()


def test_another_array_is_refused_and_an_equal_one_is_not():
    mean, words = X.mean(axis=0), {label: np.ones(8, np.int8) for label in range(5)}
    hasher = HCOH(8, preprocess=mean, codebook=words, random_state=0).fit(X, Y)
    hasher.partial_fit(X, Y)
    hasher.preprocess = mean + 1
    with pytest.raises(InvalidInputError, match=r"(?s)preprocess=array.* was changed after HCOH"):
        hasher.partial_fit(X, Y)
    hasher.preprocess = X.mean(axis=0)  # another array of the same values
    hasher.partial_fit(X, Y)
    hasher.codebook = {**words, 0: -words[0]}
    with pytest.raises(InvalidInputError, match=r"(?s)codebook=\{0: array.* was changed"):
        hasher.to_bytes()


def test_before_learning_parameters_are_free_and_a_loaded_file_fixes_its_own():
    hasher = clone(HCOH(8)).set_params(n_bits=16, random_state=3).partial_fit(X, Y)
    again = load_hasher(hasher.to_bytes())
    assert again.partial_fit(X, Y).snapshot().n_bits == 16
    with pytest.raises(InvalidInputError, match="random_state=4 was changed after HCOH learned with random_state=3"):
        again.set_params(random_state=4).partial_fit(X, Y)
    generator = np.random.default_rng(0)
    LSH(8, random_state=generator).partial_fit(X).partial_fit(X).snapshot()


def test_a_learning_rate_may_change_and_is_checked():
    slow = HCOH(16, learning_rate=0.1, random_state=0).partial_fit(X, Y)
    slow.set_params(learning_rate=0.01).partial_fit(X, Y)
    assert load_hasher(slow.to_bytes()).learning_rate == 0.01
    before = slow.to_bytes()
    with pytest.raises(InvalidInputError, match="learning_rate=-1 is not positive"):
        slow.set_params(learning_rate=-1).partial_fit(X, Y)
    assert slow.set_params(learning_rate=0.01).to_bytes() == before


@pytest.mark.parametrize("name", HASHERS)
def test_a_stream_goes_on_and_resumes_with_a_changed_parameter(name):
    small = {"n_components": 50} if name == "hroh" else {}
    for parameter in HASHERS[name].changeable.keys() - {"output"}:
        hasher = make_hasher(name, n_bits=12, random_state=0, **small).partial_fit(X, Y)
        value = getattr(hasher, parameter)
        other = 2 * value if isinstance(value, float) else 1 if isinstance(value, int) else 0.5
        hasher.set_params(**{parameter: other})
        resumed = load_hasher(hasher.to_bytes())
        for each in (hasher, resumed):
            assert each.snapshot().version == 300
            each.partial_fit(X, Y)
        assert hasher.get_params() == resumed.get_params()
        assert np.array_equal(hasher.project(X), resumed.project(X))


def test_the_penalty_of_hroh_is_applied_last():
    settings = {"n_components": 50, "bandwidth": 1.0, "random_state": 0}
    changed = HROH(16, **settings).fit(X, Y)
    changed.snapshot()
    changed.set_params(alpha=3.0)
    expected = HROH(16, alpha=3.0, **settings).fit(X, Y)
    assert np.array_equal(changed.project(X), expected.project(X))


def test_a_code_has_a_longest_length(tmp_path):
    for hasher in (HCOH(10**9), MIHash(n_bits=16385)):
        with pytest.raises(InvalidInputError, match="is too many; a code has at most 16384 bits"):
            hasher.partial_fit(X, Y)
    with pytest.raises(InvalidInputError, match="at most 16384 bits"):
        HROH(16, n_components=50, random_state=0).fit(X, Y).with_bits(10**9)
    with pytest.raises(InvalidInputError, match="at most 16384 bits"):
        Collection.open(tmp_path / "items.oh", HCOH(10**9))
