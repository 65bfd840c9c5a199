"""A new embedding model: searches go on with the old one until all items have both, and nothing is lost."""

import threading
import time

import numpy as np
import pytest
from tests.collection.brute import by_distance, pairs
from tests.collection.refreshing import TIMEOUT

from onlinehash import HCOH, HROH, Collection, Embedder, hamming_distances
from onlinehash.collection import learner, migration
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, NotLearnedError, UnknownIdError

CENTRES = np.random.default_rng(3).normal(size=(4, 5)).astype(np.float32)
TURN = np.random.default_rng(4).normal(size=(5, 9)).astype(np.float32)


def embed_old(texts):
    """Embed texts such as "2 17", item 17 of class 2."""
    rows = [(int(text.split()[0]), int(text.split()[1])) for text in texts]
    noise = np.array([np.random.default_rng(number).normal(size=5) for _, number in rows])
    return (CENTRES[[label for label, _ in rows]] + 0.2 * noise).astype(np.float32)


def embed_new(texts):
    """Embed texts to the same vectors however many there are, which a product of matrices does not."""
    return np.tanh((embed_old(texts)[:, :, None] * TURN).sum(axis=1))


def take(start, n):
    labels = [number % 4 for number in range(start, start + n)]
    return [f"{label} {number}" for label, number in zip(labels, range(start, start + n), strict=True)], labels


@pytest.fixture
def tickets(place):
    texts, labels = take(0, 60)
    with place.open(HCOH(12, random_state=0), "manual", embed=embed_old) as collection:
        collection.upsert(range(60), documents=texts, labels=labels)
        yield collection


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(migration, "ITEMS_PER_CHUNK", 16)
    monkeypatch.setattr(learner, "_BYTES_PER_CHUNK", 4 * 9 * 20)


def assert_exact(collection, embed, n_items):
    """Demand that all items are there, embedded and encoded by one model, and that searches are exact."""
    items = list(collection.items())
    assert len(items) == len(collection) == n_items
    X = embed([item.payload["document"] for item in items])
    assert np.array_equal([item.vectors for item in items], X)
    ids, codes = collection.codes()
    assert sorted(ids) == [item.id for item in items]
    by_id = dict(zip([item.id for item in items], collection.encoder.encode(X), strict=True))
    assert np.array_equal(codes, [by_id[id] for id in ids])
    query = collection.encoder.encode(embed(["1 7000"]))
    expected = by_distance(collection, hamming_distances(query, codes)[0].tolist(), ids)
    assert pairs(collection.search("1 7000", k=n_items, rescore=None)) == expected


def test_a_migration_from_the_first_item_to_the_answer(place, tickets):
    progress = []
    assert_exact(tickets, embed_old, 60)
    tickets.update(3, payload={"document": "3 3", "user": 1})
    tickets.delete(7)
    tickets.migrate(embed=embed_new, progress=lambda done, total: progress.append((done, total)))
    assert progress == [(16, 59), (32, 59), (48, 59), (59, 59)]
    assert (tickets.embedder, tickets.n_features, tickets.migration) == ("embed_new", 9, None)
    assert tickets.get(3)[0].payload == {"document": "3 3", "user": 1}
    assert_exact(tickets, embed_new, 59)
    texts, labels = take(100, 20)
    tickets.upsert(range(100, 120), documents=texts, labels=labels)
    tickets.refresh()
    assert_exact(tickets, embed_new, 79)
    tickets.close()
    with pytest.raises(InvalidInputError, match="embeds with 'embed_new', not 'embed_old'"):
        place.open(embed=embed_old)
    with place.open(embed=embed_new) as again:
        assert_exact(again, embed_new, 79)
        again.migrate(embed=Embedder("third", embed_old))
        again.change_hasher(HROH(16, n_components=8, random_state=0))
        assert_exact(again, embed_old, 79)
        assert (again.stats().method, again.stats().n_bits) == ("hroh", 16)
        again.delete(0, unlearn=True)


def test_the_new_codes_are_those_of_a_collection_that_never_had_the_old_ones(place, tickets, tmp_path):
    tickets.migrate(embed=embed_new)
    with Collection.open(tmp_path / "fresh.oh", HCOH(12, random_state=0), "manual") as fresh:
        texts, labels = take(0, 60)
        for start in range(0, 60, 20):  # as it learns
            part = slice(start, start + 20)
            fresh.upsert(range(60)[part], embed_new(texts[part]), labels[part])
        fresh.refresh()
        assert fresh.codes()[0] == tickets.codes()[0]
        assert np.array_equal(fresh.codes()[1], tickets.codes()[1])


def test_searches_and_changes_go_on_meanwhile(tickets):
    paused, go_on = threading.Event(), threading.Event()

    def slowly(texts):
        if len(paused_at) == 2:
            paused.set()
            go_on.wait(TIMEOUT)
        paused_at.append(len(texts))
        return embed_new(texts)

    paused_at = []
    thread = threading.Thread(target=tickets.migrate, kwargs={"embed": Embedder("slow", slowly)})
    thread.start()
    assert paused.wait(TIMEOUT)
    assert tickets.embedder == "embed_old"
    assert tickets.migration == migration.Migration("slow", 9, 32, 60)
    assert_exact(tickets, embed_old, 60)
    texts, labels = take(200, 30)
    tickets.upsert(range(200, 230), documents=texts, labels=labels)  # new
    tickets.upsert(range(10), documents=take(300, 10)[0], labels=take(300, 10)[1])  # in place of some that had both
    tickets.delete([20, 50])
    tickets.update(30, labels=2)
    tickets.refresh()
    with pytest.raises(InvalidInputError, match="by another thread"):
        tickets.migrate(embed=embed_new)
    assert_exact(tickets, embed_old, 88)
    go_on.set()
    thread.join()
    assert tickets.embedder == "slow" and tickets.get(30)[0].labels == 2
    assert_exact(tickets, embed_new, 88)


def test_searches_during_the_cut_over_are_of_one_model(tickets):
    """Threads search for documents all the time: what they get is right, under the old model or under the new one."""
    stop, wrong = threading.Event(), []

    def search(rescore):
        while not stop.is_set():
            try:
                found = tickets.search(["0 0", "3 59"], k=3, rescore=rescore)
                if rescore and [ids[0] for ids in found.ids] != [0, 59]:
                    wrong.append(found)
            except Exception as error:
                wrong.append(error)

    def write():
        number = 1000
        while not stop.is_set():
            texts, labels = take(number, 3)
            try:
                tickets.upsert(range(number, number + 3), documents=texts, labels=labels)
            except Exception as error:
                wrong.append(error)
            number += 4
            time.sleep(0.002)

    threads = [threading.Thread(target=search, args=(rescore,)) for rescore in ("l2", "l2", None)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for name, embed in (("b", embed_new), ("c", embed_old), ("d", embed_new)):
        tickets.migrate(embed=Embedder(name, embed))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    assert_exact(tickets, embed_new, len(tickets))


def test_a_migration_that_failed_goes_on_where_it_was(place, tickets):
    n_embedded = []

    def failing(texts):
        n_embedded.append(len(texts))
        if len(n_embedded) == 3:
            raise RuntimeError("the model fell over")
        return embed_new(texts)

    with pytest.raises(RuntimeError, match="fell over"):
        tickets.migrate(embed=Embedder("new", failing))
    assert_exact(tickets, embed_old, 60)
    assert tickets.migration == migration.Migration("new", 9, 32, 60)
    tickets.close()
    with place.open(embed=embed_old) as again:
        assert again.migration == migration.Migration("new", 9, 32, 60)
        for wrong, error in (
            ({"embed": embed_new}, "A migration to 'new' is under way, not to 'embed_new'"),
            ({}, "'new', which is not registered"),
        ):
            with pytest.raises(InvalidInputError, match=error):
                again.migrate(**wrong)
        with pytest.raises(InvalidFeaturesError, match="have 5 numbers, those before have 9"):
            again.migrate(embed=Embedder("new", embed_old))
        again.migrate(embed=Embedder("new", failing))
        assert n_embedded == [16, 16, 16, 16, 12]
        assert_exact(again, embed_new, 60)


def test_a_migration_can_be_abandoned(place, tickets):
    with pytest.raises(ZeroDivisionError):
        tickets.migrate(embed=Embedder("broken", lambda texts: 1 // 0))
    tickets.abandon_migration()
    tickets.abandon_migration()
    assert tickets.migration is None
    assert_exact(tickets, embed_old, 60)

    def abandoning(texts):
        tickets.abandon_migration()
        return embed_new(texts)

    with pytest.raises(InvalidInputError, match="was abandoned; the collection is as it was"):
        tickets.migrate(embed=Embedder("other", abandoning))
    tickets.close()
    with place.open(embed=embed_old) as again:
        assert_exact(again, embed_old, 60)
        again.migrate(embed=embed_new)
        assert_exact(again, embed_new, 60)


def test_vectors_from_elsewhere(place, tickets):
    texts = [f"{number % 4} {number}" for number in range(60)]
    new = embed_new(texts)
    with pytest.raises(InvalidInputError, match=r"20 of 60 items have no new vector yet, 40 among them.*again"):
        tickets.migrate(vectors=((id, new[id]) for id in range(40)))
    assert tickets.embedder == "embed_old" and tickets.migration.n_done == 40
    tickets.upsert(5, documents="1 5", labels=1)  # its new vector is that of a replaced item
    with pytest.raises(InvalidInputError, match="1 of 60 items"):
        tickets.migrate(vectors=[(id, new[id]) for id in range(40, 60)] + [(999, new[0])])
    tickets.migrate(vectors=[(5, new[5])])
    assert tickets.embedder is None
    assert np.array_equal([item.vectors for item in tickets.items()], new)
    with pytest.raises(UnknownIdError):
        tickets.get(999)
    tickets.close()
    with place.open(embed=embed_new) as again:
        assert_exact(again, embed_new, 60)


def test_vectors_and_an_embedder_for_the_rest(tickets):
    new = embed_new([f"{number % 4} {number}" for number in range(60)])
    n_embedded = []

    def counting(texts):
        n_embedded.append(len(texts))
        return embed_new(texts)

    tickets.update(7, payload={"document": None})
    with pytest.raises(InvalidInputError, match="Item 7 has no 'document'"):
        tickets.migrate(embed=Embedder("new", counting))
    tickets.migrate(embed=Embedder("new", counting), vectors=[(id, new[id]) for id in range(50)])
    assert n_embedded == [10] and np.array_equal([item.vectors for item in tickets.items()], new)


def test_what_cannot_be_migrated_is_refused(path):
    with Collection.open(path, HCOH(8, random_state=0), "manual", embed=embed_old) as items:
        with pytest.raises(InvalidInputError, match="no items to migrate"):
            items.migrate(embed=embed_new)
        items.upsert(range(8), documents=take(0, 8)[0])
        with pytest.raises(InvalidInputError, match="embed=, or new vectors"):
            items.migrate()
        with pytest.raises(InvalidInputError, match="embeds with 'embed_old' already"):
            items.migrate(embed=embed_old)
        items.migrate(embed=embed_new)  # nothing was learned, nothing is searchable
        assert items.n_features == 9 and items.encoder is None
        items.upsert(range(8, 16), documents=take(8, 8)[0], labels=take(8, 8)[1])
        assert_exact(items, embed_new, 16)
        items.update(range(8, 16), labels=None)
        with pytest.raises(NotLearnedError, match="no item has a label"):
            items.migrate(embed=embed_old)
        items.upsert([0, 1], documents=take(0, 2)[0], labels=[0, 1])
        items.migrate(embed=embed_old)
        assert_exact(items, embed_old, 16)


def test_what_is_unlearned_meanwhile_is_not_learned_by_the_new_hasher(path):
    texts, labels = take(0, 60)

    def unlearning(texts):
        if len(items) == 60:
            items.delete(range(30), unlearn=True)
        return embed_new(texts)

    with Collection.open(path, HROH(12, n_components=8, random_state=0), "manual", embed=embed_old) as items:
        items.upsert(range(60), documents=texts, labels=labels)
        items.migrate(embed=Embedder("new", unlearning))
        assert items.hasher.n_samples_seen_ == 30
        assert_exact(items, embed_new, 30)


def test_a_reader_in_another_process_follows(place, tickets):
    with place.open(readonly=True, embed=embed_old) as reader:
        assert reader.search("0 0", k=1, rescore="l2").ids == [0]
        tickets.migrate(embed="char_ngrams:32")
        assert reader.search("0 0", k=1, rescore="l2").ids == [0]
        assert reader.embedder == "char_ngrams:32" and reader.migration is None
        found = reader.search(["0 0", "1 1"], k=60)
        assert found.ids == tickets.search(["0 0", "1 1"], k=60).ids


@pytest.mark.parametrize("options", [{"rescore": "cosine"}, {"include": ["vectors"]}], ids=str)
def test_a_reader_that_a_migration_overtakes_takes_codes_and_vectors_of_one_model(path, monkeypatch, options):
    texts, labels = take(0, 60)
    with Collection.open(path, HCOH(12, random_state=0), embed="char_ngrams:64") as writer:
        writer.upsert(range(60), documents=texts, labels=labels)
        with Collection.open(path, readonly=True) as reader:
            search, n_searches = reader._searcher.search, []

            def migrate_after(*given, **named):
                found = search(*given, **named)
                if not n_searches:  # between the codes and the vectors of one search
                    writer.migrate(embed="char_ngrams:96")
                n_searches.append(1)
                return found

            monkeypatch.setattr(reader._searcher, "search", migrate_after)
            found = reader.search(texts[7], k=1, **options)
            assert len(n_searches) == 2 and found.ids == [7] and reader.n_features == 96
            assert found.distances[0] < 1e-6
            assert found.vectors is None or found.vectors.shape == (1, 96)


def test_a_migration_whose_items_are_all_deleted_leaves_the_collection_as_it_was(path):
    with Collection.open(path, HCOH(8, random_state=0)) as items:
        items.upsert([1, 2], np.eye(2))

        def none():
            items.delete([1, 2])
            yield from ()

        with pytest.raises(InvalidInputError, match=r"All items were deleted .*abandon_migration"):
            items.migrate(vectors=none())
        items.abandon_migration()
        assert items.n_features == 2 and items.check().ok


@pytest.mark.parametrize("search", ["faiss"])
def test_an_engine_follows(path, search):
    texts, labels = take(0, 40)
    with Collection.open(path, HCOH(16, random_state=0), "manual", embed=embed_old, search=search) as items:
        items.upsert(range(40), documents=texts, labels=labels)
        items.migrate(embed=embed_new)
        assert_exact(items, embed_new, 40)
