"""Labels without a name, labels that are the same, and labels that are called something else."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from onlinehash import HCOH, HROH, Collection
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, StorageError, UnknownIdError


def hroh(**params):
    return HROH(16, **{"n_components": 64, "random_state": 0, **params})


@pytest.fixture
def things(place, data):
    """Thirty items without labels, then ten with "cat" and ten with "dog"."""
    X, _ = data.take(50)
    with place.open(hroh(bandwidth=1.0), "manual") as items:
        items.upsert(range(30), X[:30], payload=[{"n": row} for row in range(30)])
        items.upsert(range(30, 50), X[30:], ["cat"] * 10 + ["dog"] * 10)
        yield items


def group(items, id):
    return {item.id for item in items.items(labels=items[id].labels)}


def seen(hasher):
    """Return the labels that a hasher has learned rows of."""
    return set(hasher.snapshot().classes)


# ---------------------------------------------------------------------- link and unlink


def test_linked_items_share_a_label_and_groups_join(things):
    assert things.link([1, 2]) == "link-1"
    assert things.link([3, 4, 5]) == "link-2"
    assert things.link([1, 2]) == "link-1"  # nothing changes
    assert things.link([6, 2]) == "link-1"
    assert group(things, 1) == {1, 2, 6}
    joined = things.link([6, 5])
    assert joined in ("link-1", "link-2")
    assert group(things, 1) == {1, 2, 3, 4, 5, 6}
    assert things.label_counts() == {"cat": 10, "dog": 10, joined: 6, None: 24}
    assert seen(things.hasher) == {"cat", "dog", joined}
    assert things[4].payload == {"n": 4}
    assert things.link([7, 8]) == "link-3"  # no number comes twice


def test_a_name_wins_over_a_link_and_two_names_are_refused(things):
    things.link([1, 2])
    things.link([3, 4])
    assert things.link([2, 3, 30]) == "cat"
    assert {things[id].labels for id in (1, 2, 3, 4)} == {"cat"}
    before, sequence = things.label_counts(), things.sequence
    with pytest.raises(InvalidInputError, match="the labels 'cat' and 'dog'; call merge_labels"):
        things.link([1, 40])
    with pytest.raises(InvalidInputError, match="at least two ids"):
        things.link([1])
    with pytest.raises(InvalidInputError, match="at least two ids"):
        things.link(1)
    with pytest.raises(InvalidInputError):
        things.link([1, 1])
    with pytest.raises(UnknownIdError):
        things.link([1, 1000])
    things.upsert(60, things[1].vectors, ["cat", "pet"])
    with pytest.raises(InvalidInputError, match="Item 60 has several labels"):
        things.link([60, 5])
    things.delete(60, unlearn=True)
    assert things.label_counts() == before
    assert things.sequence > sequence
    assert seen(things.hasher) == {"cat", "dog"}


def test_linking_equals_labelling(tmp_path, data):
    X, y = data.take(200)
    with (
        Collection.open(tmp_path / "linked.oh", hroh(bandwidth=1.0), "manual") as linked,
        Collection.open(tmp_path / "labelled.oh", hroh(bandwidth=1.0), "manual") as labelled,
    ):
        linked.upsert(range(200), X)
        labels = [None] * 200
        for label in range(4):
            rows = np.flatnonzero(y == label)[:20].tolist()
            for one, other in pairwise(rows):
                name = linked.link([one, other], checkpoint={"at": other})
            assert linked.checkpoint("at") == rows[-1]
            for row in rows:
                labels[row] = name
        labelled.upsert(range(200), X, labels)
        same_sums(linked.hasher, labelled.hasher, X)
        linked.refresh()
        found = linked.search(X, 10).ids
        assert np.mean([np.mean(y[row] == y[query]) for query, row in enumerate(found)]) > 0.9


def test_links_among_integers_are_integers(place, data):
    X, y = data.take(40)
    with place.open(hroh(), "manual") as items:
        items.upsert(range(20), X[:20], y[:20])
        items.upsert(range(20, 40), X[20:])
        label = items.link([20, 21])
        assert label < -1_000_000_000
        assert items.link([21, 22]) == label
        assert items.link([23, 24]) == label - 1
        assert items.link([24, 0]) == y[0]
        assert items.label_type == "int"
    with place.open() as again:
        assert group(again, 22) == {20, 21, 22}
        assert again.link([25, 26]) == label - 2


def test_what_is_unlinked_has_no_label_and_is_unlearned(things):
    things.link([1, 2, 3])
    before = things.hasher
    things.link([5, 1])
    things.unlink(5, checkpoint={"n": 1})
    assert (things[5].labels, things[1].labels, things.checkpoint("n")) == (None, "link-1", 1)
    X = things.get(range(50))
    same_sums(things.hasher, before, np.array([item.vectors for item in X]))
    things.unlink([1, 2, 3])
    assert things.label_counts() == {"cat": 10, "dog": 10, None: 30}
    assert seen(things.hasher) == {"cat", "dog"}
    things.unlink([])
    with pytest.raises(UnknownIdError):
        things.unlink([1, 1000])


# ---------------------------------------------------------------------- merge_labels and rename_label


def same_sums(one, other, X):
    scores = [hasher.snapshot().class_scores(X)[:, np.argsort(hasher.snapshot().classes)] for hasher in (one, other)]
    assert seen(one) == seen(other)
    assert np.allclose(*scores, atol=1e-5)


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several"])
def test_a_merge_equals_having_learned_so(tmp_path, data, several):
    X, y = data.take(300)

    def labels(of):
        return [[of[int(label)], f"kind {label // 2}"] if several else of[int(label)] for label in y]

    with (
        Collection.open(tmp_path / "merged.oh", hroh(), "manual") as merged,
        Collection.open(tmp_path / "loaded.oh", hroh(), "manual") as loaded,
    ):
        merged.upsert(range(300), X, labels({0: "a", 1: "b", 2: "c", 3: "d"}))
        n_items = merged.label_counts()["d"]
        assert merged.merge_labels("d", "b") == n_items
        loaded.upsert(range(300), X, labels({0: "a", 1: "b", 2: "c", 3: "b"}))
        assert merged.label_counts() == loaded.label_counts()
        assert [merged[id].labels for id in range(300)] == [loaded[id].labels for id in range(300)]
        same_sums(merged.hasher, loaded.hasher, X)
        assert merged.stats().staleness > 0
        for collection in (merged, loaded):
            collection.refresh()
        same_sums(merged.hasher, loaded.hasher, X)
        given = [
            [each.label for each in items.classify(X, max_error=0.3, n_neighbours=0)] for items in (merged, loaded)
        ]
        assert given[0] == given[1]
        assert "d" not in given[0]
        assert merged.check().ok


def test_a_renamed_label_has_what_was_learned(place, data):
    X, y = data.take(200)
    with place.open(hroh(), "manual") as items:
        items.upsert(range(200), X, y)
        before = items.hasher.predict(X)
        assert items.rename_label(np.int64(3), 30) == (y == 3).sum()
        after = items.hasher
        assert 3 not in items.label_counts() and 3 not in seen(after)
        assert (after.predict(X) == np.where(before == 3, 30, before)).all()
        items.refresh()
        assert {each.label for each in items.classify(X[y == 3], n_neighbours=0)} <= {30, None}
        assert items.rename_label(30, 3) == (y == 3).sum()
        expected = items.hasher.to_bytes()
    with place.open() as again:
        assert again.hasher.to_bytes() == expected
        assert again.label_counts() == {label: int((y == label).sum()) for label in range(4)}


def test_labels_that_cannot_be_changed_are_told(things, tmp_path, data):
    before, sequence = things.hasher.to_bytes(), things.sequence
    for call, words in (
        (lambda: things.merge_labels("cat", "bird"), "No item has the label 'bird'; call rename_label"),
        (lambda: things.rename_label("cat", "dog"), "Items have the label 'dog'; call merge_labels"),
        (lambda: things.merge_labels("bird", "cat"), "No item has the label 'bird'"),
        (lambda: things.merge_labels("cat", "cat"), "'cat' is not another label"),
        (lambda: things.rename_label(["cat"], "bird"), "is not one label"),
        (lambda: things.rename_label("cat", ["bird", "dog"]), "is not one label"),
        (lambda: things.rename_label("cat", 7), "labels holds int; the labels of this collection are str"),
        (lambda: things.rename_label("cat", None), "no label"),
        (lambda: things.rename_label(None, "cat"), "no label"),
        (lambda: things.rename_label("cat", 1.5), "not exactly an integer"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()
    assert (things.hasher.to_bytes(), things.sequence) == (before, sequence)
    X, y = data.take(20)
    with Collection.open(tmp_path / "hcoh.oh", HCOH(8, random_state=0), "manual") as items:
        items.upsert(range(20), X, y)
        with pytest.raises(
            InvalidInputError, match=r"cannot change labels that it has learned; HROH can.*change_hasher"
        ):
            items.merge_labels(1, 2)
        items.link([0, 0 + int(np.flatnonzero(y == y[0])[1])])  # which any hasher can learn
        assert items.label_counts() == {label: int((y == label).sum()) for label in sorted(set(y.tolist()))}


@pytest.mark.slow
def test_a_reader_in_another_process_sees_new_labels(place, data):
    X, y = data.take(100)
    with place.open(hroh(), "manual") as items:
        items.upsert(range(100), X, y)
        program = f"""
import sys
from itertools import pairwise
from onlinehash import Collection
with {place.source(readonly=True)} as reader:
    for _ in sys.stdin:
        print(reader.label_counts(), reader.hasher.version_, flush=True)
"""
        reader = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            for change in (
                lambda: None,
                lambda: items.merge_labels(3, 2),
                lambda: items.rename_label(2, 5),
                lambda: items.upsert([200, 201], X[:2]),
                lambda: items.link([200, 201]),
                lambda: items.unlink(201),
            ):
                change()
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline().strip() == f"{items.label_counts()} {items.hasher.version_}"
        finally:
            reader.stdin.close()
            assert reader.wait(60) == 0
            reader.stdout.close()
        with place.open(readonly=True) as other, pytest.raises(StorageError, match="readonly"):
            other.merge_labels(0, 1)


def test_labels_change_while_a_migration_is_under_way(place, data):
    X, y = data.take(80)
    wider = np.hstack([X, X[:, :2]])
    with place.open(hroh(), "manual") as items:
        items.upsert(range(80), X, y)
        items.upsert([90, 91], X[:2])
        with pytest.raises(InvalidInputError, match="new vector"):
            items.migrate(vectors=[(id, wider[id]) for id in range(60)])
        assert items.migration is not None
        items.merge_labels(3, 2)
        items.rename_label(2, 5)
        link = items.link([90, 91])
        items.unlink(0)
        given = [*((id, wider[id]) for id in range(80)), (90, wider[0]), (91, wider[1])]
        items.migrate(vectors=given)
        assert (items.migration, items.n_features) == (None, 8)
        labels = [None, *np.where(y > 1, 5, y)[1:].tolist()]
        assert [items[id].labels for id in range(80)] == labels
        clean = hroh().partial_fit(wider[1:], labels[1:]).partial_fit(wider[:2], [link, link])
        assert seen(items.hasher) == seen(clean)
        assert np.mean(items.hasher.predict(wider) == clean.predict(wider)) > 0.97
        assert items.check().ok


def test_a_label_that_is_not_known_type_is_refused_by_link(place, data):
    """A collection without labels gets strings; integers are then refused."""
    X, _ = data.take(4)
    with place.open(hroh(), "manual") as items:
        items.upsert(["a", "b", "c", "d"], X)
        assert items.link(["a", "b"]) == "link-1"
        with pytest.raises(InvalidLabelsError, match="the labels of this collection are str"):
            items.upsert("e", X[0], 7)
