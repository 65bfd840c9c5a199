"""Labels with a stated error, labels that are wrong, and what to label next."""

import shutil

import numpy as np
import pytest
from tests.collection.brute import contents

from onlinehash import HCOH, HROH, LSH, Collection, load_dataset
from onlinehash.exceptions import InvalidInputError, NotLearnedError

N_ITEMS = 800


def hroh(**params):
    return HROH(64, n_components=256, random_state=0, **params)


@pytest.fixture(scope="module")
def digits():
    X, y = load_dataset("digits").split().stream
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def template(digits, tmp_path_factory):
    X, y = digits
    path = tmp_path_factory.mktemp("digits") / "digits.oh"
    with Collection.open(path, hroh(), "manual") as collection:
        collection.upsert(range(N_ITEMS), X[:N_ITEMS], y[:N_ITEMS])
    return path


@pytest.fixture
def collection(template):
    with Collection.open(template, readonly=True) as collection:
        yield collection


def state(collection):
    return contents(collection), collection.stats(), collection.hasher.to_bytes(), collection.sequence


# ---------------------------------------------------------------------- classify


def test_the_error_of_accepted_labels_is_near_the_promise(collection, digits):
    X, y = (part[N_ITEMS:] for part in digits)
    accepted = []
    for max_error in (0.005, 0.02, 0.1):
        decisions = collection.classify(X, max_error=max_error, n_neighbours=0)
        given = [row for row, decision in enumerate(decisions) if decision.label is not None]
        wrong = np.mean([decisions[row].label != y[row] for row in given])
        assert wrong < 2 * max_error + 0.02, (max_error, wrong)
        accepted.append(len(given) / len(X))
    assert accepted[0] > 0.5
    assert accepted == sorted(accepted)
    assert accepted[0] < 1.0  # some are left open


def test_a_decision_is_complete(collection, digits):
    X, _ = digits
    decisions = collection.classify(X[N_ITEMS : N_ITEMS + 100], max_error=0.001, n_neighbours=4)
    for decision in decisions:
        labels, chances = zip(*decision.alternatives, strict=True)
        assert len(set(labels)) == len(labels) == 5
        assert list(chances) == sorted(chances, reverse=True)
        assert 0.0 < sum(chances) <= 1.0 + 1e-5
        assert decision.label in (None, labels[0])
        assert decision.score == chances[0]
        assert type(labels[0]) is int and type(decision.score) is float and type(decision.known) is bool
        assert len(decision.neighbours) == 4
        assert {item.labels for item in collection.get(decision.neighbours)} == {labels[0]}
    unsure = [decision for decision in decisions if decision.label is None]
    assert unsure and max(each.score for each in unsure) <= max(each.score for each in decisions)
    assert collection.classify(X[N_ITEMS], max_error=0.001, n_neighbours=4) == decisions[0]


def share_known(collection, vectors):
    return np.mean([each.known for each in collection.classify(vectors, n_neighbours=0)])


def test_rows_of_labels_never_learned_are_seldom_known(tmp_path, digits):
    X, y = digits
    learned, other = np.flatnonzero(y < 8), np.flatnonzero(y >= 8)
    with Collection.open(tmp_path / "some.oh", HROH(64, n_components=512, random_state=0), "manual") as items:
        items.upsert(learned[:600].tolist(), X[learned[:600]], y[learned[:600]])
        assert share_known(items, X[other]) < 0.2
        assert share_known(items, X[learned[600:]]) > 0.85


def test_rows_like_nothing_learned_are_not_known(collection):
    assert share_known(collection, np.random.default_rng(0).random((100, 64)).astype(np.float32)) < 0.1


def test_expecting_unknown_labels_accepts_less(tmp_path, digits):
    X, y = digits
    known, unknown = np.flatnonzero(y < 7)[:500], np.flatnonzero(y >= 7)[:200]
    with Collection.open(tmp_path / "some.oh", hroh(), "manual") as items:
        items.upsert(known.tolist(), X[known], y[known])
        before = state(items)
        n_accepted = []
        for share in (0.0, 0.05, 0.5):
            decisions = items.classify(X[unknown], max_error=0.05, unknown_share=share, n_neighbours=0)
            n_accepted.append(sum(each.label is not None for each in decisions))
        assert n_accepted[0] > n_accepted[1] >= n_accepted[2]
        assert state(items) == before
    with Collection.open(tmp_path / "some.oh", readonly=True) as reader:
        decisions = reader.classify(X[unknown], max_error=0.05, unknown_share=0.05, n_neighbours=0)
        assert sum(each.label is not None for each in decisions) == n_accepted[1]


@pytest.mark.parametrize("max_error", [0, 0.0, 1, 1.0, 2, -0.1, "x", True, None, float("nan")])
def test_a_max_error_that_is_no_share_is_refused(collection, digits, max_error):
    with pytest.raises(InvalidInputError, match=r"max_error=.* is not a number between 0 and 1"):
        collection.classify(digits[0][0], max_error=max_error)


@pytest.mark.parametrize("share", [-1, 1, 1.5, "x", True, None, float("nan")])
def test_an_unknown_share_that_is_no_share_is_refused(collection, digits, share):
    with pytest.raises(InvalidInputError, match=r"unknown_share=.* is not a number between 0 and 1, or 0"):
        collection.classify(digits[0][0], unknown_share=share)


def test_bad_input_is_refused_and_changes_nothing(template, tmp_path, digits):
    shutil.copy(template, tmp_path / "items.oh")
    with Collection.open(tmp_path / "items.oh") as items:
        before = state(items)
        for call, error in (
            (lambda: items.classify(np.ones(65)), InvalidInputError),
            (lambda: items.classify(np.ones((0, 64))), InvalidInputError),
            (lambda: items.classify(np.full(64, np.nan)), InvalidInputError),
            (lambda: items.classify("a document"), InvalidInputError),
            (lambda: items.classify(digits[0][0], n_neighbours=-1), InvalidInputError),
            (lambda: items.suspects(0), InvalidInputError),
            (lambda: items.suspects(labels=[]), InvalidInputError),
            (lambda: items.suspects(labels="x"), InvalidInputError),
            (lambda: items.review(-1), InvalidInputError),
            (lambda: items.review(by="chance"), InvalidInputError),
        ):
            with pytest.raises(error):
                call()
        items.classify(digits[0][:3], unknown_share=0.1)
        items.suspects()
        items.review()
        assert state(items) == before


CALLS = {
    "classify": lambda items: items.classify(np.ones(6)),
    "suspects": lambda items: items.suspects(),
    "review": lambda items: items.review(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_collection_that_cannot_decide_says_why(tmp_path, data, name):
    X, y = data.take(40)
    decide = CALLS[name]
    with Collection.open(tmp_path / "empty.oh", hroh(), "manual") as items:
        with pytest.raises(NotLearnedError, match="learned nothing yet"):
            decide(items)
        items.upsert(range(40), X)
        with pytest.raises(NotLearnedError, match="learned nothing yet"):
            decide(items)
        items.upsert(40, X[0], 1)
        with pytest.raises(InvalidInputError, match="one label, 1, so there is nothing to decide"):
            decide(items)
        items.upsert(41, X[1], 2)
        items.refresh()
        decide(items)
        items.unlink([40, 41])  # all is unlearned again
        items.refresh()
        assert len(items.search(X[0], 100).ids) == 42
        with pytest.raises(NotLearnedError, match="learned nothing yet"):
            decide(items)
        items.upsert(range(40), X, y)
        items.refresh()
        decide(items)
    for hasher in (HCOH(8), LSH(8)):
        with Collection.open(tmp_path / f"{hasher.name}.oh", hasher, "manual") as items:
            items.upsert(range(40), X, y)
            with pytest.raises(InvalidInputError, match=f"'{hasher.name}' has no scores of classes.*'hroh'"):
                decide(items)
            items.change_hasher(hroh())
            decide(items)


def test_what_the_next_hasher_cannot_decide_is_told_while_its_codes_are_made(tmp_path, data, monkeypatch):
    from tests.collection.refreshing import held

    X, y = data.take(40)
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(40), X, y)
        with held(monkeypatch, items):
            items.change_hasher(HCOH(8), wait=False)
            assert len(items.classify(X)) == 40  # by the codes in use
            for call in (items.suspects, lambda: items.classify(X, unknown_share=0.1)):
                with pytest.raises(InvalidInputError, match="has no scores of classes, so it cannot decide"):
                    call()


def test_a_hasher_that_cannot_unlearn_classifies_without_unknown_labels(tmp_path, data):
    X, y = data.take(200)
    with Collection.open(tmp_path / "items.oh", hroh(decay=0.999), "manual") as items:
        items.upsert(range(200), X, y)
        assert len(items.classify(X)) == 200
        with pytest.raises(InvalidInputError, match="unknown_share needs HROH with decay=1"):
            items.classify(X, unknown_share=0.1)


def test_strings_and_several_labels_are_classified(tmp_path, data):
    X, y = data.take(300)
    labels = [["animal", f"kind {label}"] if label < 2 else [f"kind {label}"] for label in y]
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert([f"item {row}" for row in range(300)], X, labels)
        decisions = items.classify(X, max_error=0.2)
        assert {each.label for each in decisions if each.label} <= {"animal", *(f"kind {label}" for label in range(4))}
        assert all(each.neighbours for each in decisions)
        good = [each.label in own for each, own in zip(decisions, labels, strict=True) if each.label]
        assert np.mean(good) > 0.8
        items.delete([f"item {row}" for row in range(300)])
        assert items.classify(X[0]).neighbours == []


# ---------------------------------------------------------------------- suspects


def flipped(y, share, seed=0):
    """Return labels of which some are wrong, and the rows of these."""
    rng, wrong = np.random.default_rng(seed), y.copy()
    rows = rng.choice(len(y), int(share * len(y)), replace=False)
    wrong[rows] = (y[rows] + rng.integers(1, 10, len(rows))) % 10
    return wrong, rows


def test_suspects_are_ordered_by_the_suggested_score_minus_twice_the_own(tmp_path, digits):
    X, y = (part[:N_ITEMS] for part in digits)
    wrong, _ = flipped(y, 0.05)
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(N_ITEMS), X, wrong)
        found, hasher = items.suspects(N_ITEMS), items.hasher
    scores = hasher.leave_one_out(X, wrong)
    columns = np.argsort(hasher.classes_)
    own = scores[np.arange(N_ITEMS), columns[wrong]]
    rows = [each.id for each in found]
    assert sorted(rows) == np.flatnonzero(scores.max(axis=1) > own).tolist()
    assert any(own[rows] < 0.0)
    expected = scores[rows].max(axis=1) - 2.0 * np.maximum(own[rows], 0.0)
    assert [each.margin for each in found] == pytest.approx(expected)
    assert [each.suggested for each in found] == hasher.classes_[scores[rows].argmax(axis=1)].tolist()


def test_wrong_labels_are_found_and_gone_once_they_are_corrected(tmp_path, digits):
    X, y = (part[:N_ITEMS] for part in digits)
    wrong, rows = flipped(y, 0.05)
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(N_ITEMS), X, wrong)
        found = items.suspects(len(rows))
        assert np.mean([each.id in rows for each in found]) > 0.85
        assert [each.margin for each in found] == sorted((each.margin for each in found), reverse=True)
        assert all(each.label == wrong[each.id] for each in found)
        right = [each.suggested == y[each.id] for each in found if each.id in rows]
        assert np.mean(right) > 0.9
        some = items.suspects(labels=[3, 4])
        assert some and {each.label for each in some} <= {3, 4}
        assert len(items.suspects(3)) == 3
        items.update(rows.tolist(), labels=y[rows])
        before = items.suspects()
        assert np.mean([each.id in rows for each in before]) < 0.15  # digits that are hard to read
    with Collection.open(tmp_path / "clean.oh", hroh(), "manual") as clean:
        clean.upsert(range(N_ITEMS), X, y)
        assert [each.id for each in clean.suspects()] == [each.id for each in before]
    with Collection.open(tmp_path / "items.oh", readonly=True) as reader:
        after = reader.suspects()
        assert [each.id for each in after] == [each.id for each in before]


def test_a_wrong_label_among_several_is_found(tmp_path, data):
    X, y = data.take(300)
    labels = [[int(label), 10 + int(label) % 2] for label in y]
    labels[7] = [int(y[7]), 11 - int(y[7]) % 2]
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(300), X, labels)
        first = items.suspects(1)[0]
        assert (first.id, first.label, first.suggested) == (7, tuple(labels[7]), 10 + int(y[7]) % 2)


def test_items_learned_since_the_last_refresh_are_judged_too(tmp_path, data):
    """A label that the codes in use do not know yet is one that can be wrong, or suggested."""
    X, y = data.take(300)
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(200), X[:200], np.where(y[:200] == 3, 2, y[:200]))
        items.upsert(range(200, 300), X[200:], y[200:])
        assert 3 in {each.suggested for each in items.suspects(300)}


# ---------------------------------------------------------------------- review


@pytest.mark.parametrize("by", ["uncertain", "unknown", "diverse"])
def test_review_chooses_items_without_a_label(tmp_path, digits, by):
    X, y = digits
    labels = [int(label) if row < 300 else None for row, label in enumerate(y[:600])]
    with Collection.open(tmp_path / "items.oh", hroh(), "manual") as items:
        items.upsert(range(600), X[:600], labels)
        chosen = items.review(20, by=by)
        assert len({each.id for each in chosen}) == 20
        assert min(each.id for each in chosen) >= 300
        assert {each.suggested for each in chosen} <= set(range(10))
        assert all(0.0 < each.score <= 1.0 for each in chosen)
        if by == "uncertain":
            assert [each.score for each in chosen] == sorted(each.score for each in chosen)
        if by == "unknown":
            largest = items.encoder.class_scores(X[[each.id for each in chosen]]).max(axis=1).tolist()
            assert largest == pytest.approx(sorted(largest))
            assert not any(each.known for each in chosen[:5])
        assert {each.id for each in items.review(1000, by=by)} == set(range(300, 600))
        items.update(range(300, 600), labels=y[300:600])
        assert items.review(20, by=by) == []


def test_items_of_labels_never_seen_are_grouped_by_what_they_are(tmp_path, digits):
    X, y = digits
    labels = [None if label in (0, 6) else int(label) for label in y[:900]]
    with Collection.open(tmp_path / "digits.oh", HROH(32, n_components=256, random_state=0)) as items:
        items.upsert(range(900), X[:900], labels)
        items.refresh()
        chosen = items.review(120, by="unknown")
        assert [each.group for each in items.review(120)] == [0] * 120
    groups = [each.group for each in chosen]
    sizes = np.bincount(groups)
    assert list(sizes) == sorted(sizes, reverse=True)
    assert sizes[0] > 10
    pure = sum(np.bincount([y[each.id] for each in chosen if each.group == group]).max() for group in set(groups))
    assert pure / len(chosen) > 0.9


def test_labels_of_reviewed_items_teach_more_than_others(tmp_path, digits):
    X, y = digits
    errors = {}
    for by in ("uncertain", None):
        with Collection.open(tmp_path / f"{by}.oh", hroh(), "manual") as items:
            items.upsert(range(50), X[:50], y[:50])
            items.upsert(range(50, 600), X[50:600])
            chosen = [each.id for each in items.review(100, by=by)] if by else list(range(50, 150))
            items.update(chosen, labels=y[chosen])
            errors[by] = np.mean(items.hasher.predict(X[N_ITEMS:]) != y[N_ITEMS:])
    assert errors["uncertain"] < errors[None]
