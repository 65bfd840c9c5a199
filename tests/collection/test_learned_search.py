"""Searches as they are by default: ranked by what was learned, and by the vectors where nothing was."""

import subprocess
import sys

import numpy as np
import pytest

from onlinehash import HCOH, HROH, LSH, Collection, load_dataset
from onlinehash.exceptions import InvalidInputError

N_ITEMS, K = 600, 10


def answer(found):
    return found.ids, found.distances


@pytest.fixture(scope="module")
def digits():
    X, y = load_dataset("digits").split().stream
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def file(digits, tmp_path_factory):
    """A collection of digits with the hasher that it has by default, but of fewer components."""
    X, y = digits
    path = tmp_path_factory.mktemp("digits") / "digits.oh"
    with Collection.open(path, HROH(64, general_bits=32, n_components=512), "manual") as collection:
        collection.upsert(range(N_ITEMS), X[:N_ITEMS], y[:N_ITEMS])
        collection.refresh()
    return path


def test_every_item_finds_itself_first_and_all_items_are_found(file, digits):
    X, y = digits
    with Collection.open(file, readonly=True) as collection:
        found = collection.search(X[:N_ITEMS], K, include=["labels"])
        assert [row[0] for row in found.ids] == list(range(N_ITEMS))
        assert {row[0] for row in found.distances} == {0.0}
        assert {id for row in found.ids for id in row} == set(range(N_ITEMS))
        assert all(row == sorted(row) for row in found.distances)
        assert np.mean([np.mean(np.array(row) == y[i]) for i, row in enumerate(found.labels)]) > 0.95
        unseen = collection.search(X[N_ITEMS : N_ITEMS + 200], K, include=["labels"])
        assert np.mean([np.mean(np.array(row) == y[N_ITEMS + i]) for i, row in enumerate(unseen.labels)]) > 0.9


def test_a_new_item_is_found_at_once(file, digits, tmp_path):
    X, y = digits
    with Collection.open(file, readonly=True) as collection:
        collection.backup(tmp_path / "copy.oh")
    with Collection.open(tmp_path / "copy.oh", refresh="manual") as collection:
        for row in range(N_ITEMS, N_ITEMS + 20):
            collection.upsert(row, X[row], y[row])
            assert collection.search(X[row], 1).ids == [row]
        assert collection.stats().staleness == 20
        collection.delete(N_ITEMS)
        assert N_ITEMS not in collection.search(X[N_ITEMS], 50).ids


@pytest.mark.slow
def test_the_answers_are_the_same_wherever_they_are_asked_for(file, digits, tmp_path):
    X, _ = digits
    with Collection.open(file) as collection:
        expected = collection.search(X[:30], K)
    with Collection.open(file, readonly=True) as collection:
        assert answer(collection.search(X[:30], K)) == answer(expected)
        alone = collection.search(X[0], K)
        assert (alone.ids, alone.distances) == (expected.ids[0], pytest.approx(expected.distances[0]))
    np.save(tmp_path / "X.npy", X[:30])
    program = f"""
import numpy as np
from onlinehash import Collection
with Collection.open({str(file)!r}, readonly=True) as collection:
    print(collection.search(np.load({str(tmp_path / "X.npy")!r}), {K}).ids)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(expected.ids)


def test_faiss_gives_the_same_answers(file, digits):
    pytest.importorskip("faiss")
    X, _ = digits
    with Collection.open(file, readonly=True) as memory, Collection.open(file, readonly=True, search="faiss") as faiss:
        assert answer(faiss.search(X[:50], K)) == answer(memory.search(X[:50], K))


@pytest.mark.slow
def test_postgresql_gives_the_same_answers(file, digits, server):
    X, y = digits
    with Collection.open(file, readonly=True) as collection:
        expected, hasher = collection.search(X[:50], K), collection.hasher
    empty = HROH(**hasher.get_params())
    with Collection.open("learned_search", empty, "manual", store=server.url) as collection:
        collection.upsert(range(N_ITEMS), X[:N_ITEMS], y[:N_ITEMS])
        assert answer(collection.search(X[:50], K)) == answer(expected)


def test_a_query_of_a_label_never_learned_is_ranked_by_its_vector(tmp_path, digits):
    X, y = digits
    known, unknown = np.flatnonzero(y < 8)[:600], np.flatnonzero(y >= 8)[:120]
    with Collection.open(tmp_path / "some.oh", HROH(64, general_bits=32, n_components=512, random_state=0)) as items:
        items.upsert(known.tolist(), X[known], y[known])
        items.upsert(unknown.tolist(), X[unknown])  # without labels: the hasher never sees these classes
        items.refresh()
        shares = {}
        for name in ("auto", "cosine", None):
            found = items.search(X[unknown], K + 1, rescore=name).ids
            near = [[id for id in row if id != own][:K] for row, own in zip(found, unknown.tolist(), strict=True)]
            shares[name] = np.mean([np.mean(y[row] == y[own]) for row, own in zip(near, unknown, strict=True)])
        assert shares["auto"] > shares["cosine"] - 0.1
        assert shares["auto"] > shares[None] + 0.1


def test_items_without_any_label_are_found_by_their_vectors(tmp_path, digits):
    """Nothing is learned, so there are no codes; with the first labels all items are found."""
    X, y = digits
    with Collection.open(tmp_path / "items.oh", HROH(64, n_components=64, random_state=0), "manual") as items:
        items.upsert(range(100), X[:100])
        assert items.search(X[0]).ids == []
        items.upsert([100, 101], X[100:102], [0, 1])
        assert items.search(X[:100], 1).ids == [[row] for row in range(100)]
        items.upsert(102, X[102], int(y[102]))
        assert items.search(X[102], 1).ids == [102]


def test_methods_without_scores_rank_by_codes(tmp_path, digits):
    X, y = digits
    for hasher in (HCOH(32, random_state=0), LSH(32, random_state=0)):
        with Collection.open(tmp_path / f"{hasher.name}.oh", hasher, "manual") as items:
            items.upsert(range(100), X[:100], y[:100])
            assert answer(items.search(X[:5])) == answer(items.search(X[:5], rescore=None))
            with pytest.raises(InvalidInputError, match="no scores of classes; HROH has"):
                items.search(X[:5], rescore="learned")
    with Collection.open(tmp_path / "hroh.oh", HROH(32, n_components=64, random_state=0), "manual") as items:
        with pytest.raises(InvalidInputError, match="rescore='best'"):
            items.search(X[:5], rescore="best")
        items.upsert(range(100), X[:100], y[:100])
        assert answer(items.search(X[:5], rescore="learned")) == answer(items.search(X[:5]))
        among = items.search(X[0], 100, labels=3, rescore="learned", asymmetric=True)
        assert sorted(among.ids) == np.flatnonzero(y[:100] == 3).tolist()


def test_a_float16_collection_ranks_the_same_items_first(tmp_path, digits):
    X, y = digits
    hasher = HROH(64, n_components=128, random_state=0)
    with Collection.open(tmp_path / "half.oh", hasher, "manual", vector_dtype="float16") as items:
        items.upsert(range(300), X[:300], y[:300])
        items.upsert(range(300), X[:300], y[:300])  # the same again: nothing to learn
        assert items.stats().n_learned == 300
        assert [row[0] for row in items.search(X[:300], 3).ids] == list(range(300))
