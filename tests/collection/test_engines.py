"""A collection that is searched by an engine: it follows the store, and answers as memory does."""

import logging
import threading

import numpy as np
import pytest
from tests.collection.brute import pairs, ranking
from tests.collection.places import EnginePlace, FilePlace

from onlinehash import HCOH, HROH, Collection, hamming_distances
from onlinehash.exceptions import InvalidInputError, StorageError, UnknownNameError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def milvus_server():
    from tests.servers.milvus import milvus

    with milvus() as running:
        yield running


@pytest.fixture(params=["memory", "faiss", "faiss:4", "milvus"])
def search(request, tmp_path):
    if request.param == "milvus":
        return f"milvus:{request.getfixturevalue('milvus_server').uri}#c{tmp_path.name[-30:]}".replace("-", "_")
    return request.param


def same_answers(collection, queries, *, exact=True):
    """Compare every kind of search with brute force; lists of faiss may leave out near items, never be wrong.

    An idle collection refreshes in the background: what is compared across a change of codes is compared again.
    """
    for query in queries:
        version = None
        while version != collection.encoder.version:
            version = collection.encoder.version
            try:
                same_answers_to_one(collection, query, exact=exact)
            except AssertionError:
                if version == collection.encoder.version:
                    raise


def same_answers_to_one(collection, query, *, exact):
    if exact:
        assert pairs(collection.search(query, 30, rescore=None)) == ranking(collection, query)[:30]
        some = list(collection)[::3]
        among = ranking(collection, query, lambda item, some=set(some): item.id in some)
        assert pairs(collection.search(query, 20, rescore=None, ids=some)) == among[:20]
        labelled = ranking(collection, query, lambda item: item.labels == 2)
        assert pairs(collection.search(query, 20, rescore=None, labels=2)) == labelled[:20]
        near = [pair for pair in ranking(collection, query) if pair[0] <= 3]
        assert pairs(collection.range_search(query, 3)) == near
    found = collection.search(query, 20, rescore=None)
    code, codes = (collection.encoder.encode(rows) for rows in (query[None], stored(collection, found.ids)))
    assert found.distances == hamming_distances(code, codes)[0].tolist()
    assert (found.version, found.sequence) == (collection.encoder.version, collection.sequence)


def stored(collection, ids):
    return np.array([item.vectors for item in collection.get(ids)])


def test_a_load_in_batches_with_changes_is_searched_as_in_memory(tmp_path, data, search):
    path, ids = tmp_path / "items.oh", [f"item {i}" if search == "faiss" else i for i in range(600)]
    X, y = data.take(600)
    queries, exact = data.take(3)[0], search != "faiss:4"
    with Collection.open(path, HROH(12, n_components=32, random_state=0), search=search) as collection:
        for start in range(0, 500, 50):
            collection.upsert(ids[start : start + 50], X[start : start + 50], y[start : start + 50])
        same_answers(collection, queries, exact=exact)
        collection.upsert(ids[40:140], X[500:], y[500:])
        collection.delete(ids[100:200])
        collection.update(ids[7], labels=2)
        same_answers(collection, queries, exact=exact)
        collection.refresh()
        collection.delete(ids[300:310])
        same_answers(collection, queries, exact=exact)
        assert collection.stats().n_searchable == len(collection) == 390
        assert collection.stats().index == search.partition(":")[0]
    with Collection.open(path, search=search) as again:
        same_answers(again, queries, exact=exact)
        again.change_hasher(20)
        same_answers(again, queries, exact=exact)
    with Collection.open(path) as memory, Collection.open(path, search=search, readonly=True) as reader:
        memory.upsert(ids[:30], X[30:60], y[30:60])
        memory.delete(ids[60:70])
        same_answers(reader, queries, exact=exact)
        memory.refresh()
        same_answers(reader, queries, exact=exact)


def test_asymmetric_and_rescored_searches_are_those_of_memory(path, data, search):
    X, y = data.take(300)
    queries = data.take(4)[0]
    with Collection.open(path, HCOH(16, random_state=0), "manual", search=search) as collection:
        collection.upsert(range(300), X, y)
        asked = {"asymmetric": True}, {"rescore": "cosine"}, {"rescore": "l2", "asymmetric": True}
        found = [collection.search(queries, 10, **options) for options in asked]
    with Collection.open(path) as memory:
        for options, here in zip(asked, found, strict=True):
            there = memory.search(queries, 10, **options)
            if search != "faiss:4" or options.get("asymmetric"):
                assert (here.ids, here.distances) == (there.ids, there.distances)


def test_items_of_one_code_are_found_whenever_they_came_and_alike_in_every_engine(tmp_path, data, search):
    X, queries = np.tile(data.take(1)[0], (500, 1)), data.take(4)[0]
    place = tmp_path / "items.oh"
    with Collection.open(place, HCOH(8, random_state=0), "manual", search=search) as collection:
        for start in range(0, 500, 100):
            collection.upsert(range(start, start + 100), X[start : start + 100], [0] * 100)
        assert len(np.unique(collection.codes()[1], axis=0)) == 1
        found = collection.search(queries, 10)
        near = collection.range_search(queries, 8)
        among = collection.search(queries, 10, ids=range(250, 500))
    assert all(some.ids == found.ids[0] for some in found)  # the order of ties is one for all queries
    assert min(found.ids[0]) < 100 < 400 < max(found.ids[0])
    assert all(some.ids[:10] == found.ids[0] and len(some) == 500 for some in near)
    assert among.ids[0] == [id for id in near.ids[0] if id >= 250][:10]
    for engine in (search, "memory"):
        with Collection.open(place, search=engine) as again:
            assert again.search(queries, 10).ids == found.ids
            assert again.range_search(queries, 8).ids == near.ids
            again.refresh()
            assert again.search(queries, 10).ids == found.ids


def test_filters_on_payloads_are_exact(path, data, search):
    X, y = data.take(300)
    with Collection.open(path, HCOH(16, random_state=0), "manual", search=search) as collection:
        collection.upsert(range(300), X, y, [{"n": i} for i in range(300)])
        collection.delete(range(0, 300, 7))
        collection.upsert(range(0, 50, 7), X[:8], y[:8], [{"n": 1}] * 8)
        for n_passing in (3, 30, 290):
            where = {"n": {"$lt": n_passing}}
            expected = ranking(collection, X[0], lambda item, n=n_passing: item.payload["n"] < n)
            assert pairs(collection.search(X[0], 300, where=where)) == expected
            assert pairs(collection.range_search(X[0], 4, where=where)) == [pair for pair in expected if pair[0] <= 4]
            assert pairs(collection.search(X[0], 10, where=where)) == expected[:10]


def test_an_engine_that_lost_everything_is_filled_again(path, data, milvus_server):
    from pymilvus import MilvusClient

    search, X, y = f"milvus:{milvus_server.uri}#lost", *data.take(200)
    with Collection.open(path, HCOH(12, random_state=0), search=search) as collection:
        collection.upsert(range(200), X, y)
    client = MilvusClient(milvus_server.uri)
    names = [name for name in client.list_collections() if name.startswith("lost")]
    assert len(names) == 2  # the codes of one generation, and what it has seen
    client.delete("lost_1", filter="id in [1, 2, 3]")
    client.upsert("lost_1", [{"id": 10**6, "code": bytes(2)}])
    with Collection.open(path, search=search) as collection:
        same_answers(collection, X[:3])
    for name in names:
        client.drop_collection(name)
    with Collection.open(path, search=search) as collection:
        same_answers(collection, X[:3])
    client.close()


def test_one_generation_is_one_collection_of_the_engine(path, data, milvus_server):
    from pymilvus import MilvusClient

    client, X, y = MilvusClient(milvus_server.uri), *data.take(100)
    with Collection.open(
        path, HCOH(12, random_state=0), "manual", search=f"milvus:{milvus_server.uri}#gen"
    ) as collection:
        for n_bits in (None, 16, 20):
            if n_bits is None:
                collection.upsert(range(100), X, y)
            else:
                collection.change_hasher(n_bits)
            number = collection.stats().generation
            names = {name for name in client.list_collections() if name.startswith("gen_")}
            assert names == {f"gen_{number}", "gen_generations"}
    client.close()


def test_an_engine_filled_from_a_deleted_collection_is_filled_again(path, data, milvus_server):
    search, X, y = f"milvus:{milvus_server.uri}#again", *data.take(100)
    for seed in (0, 1):
        path.unlink(missing_ok=True)
        with Collection.open(path, HCOH(12, random_state=seed), "manual", search=search) as collection:
            collection.upsert(range(100), X[:: 1 - 2 * seed], y[:: 1 - 2 * seed])
            same_answers(collection, X[:2])
            expected = collection.search(X[0], 100).ids
        with Collection.open(path, search=search) as collection:
            same_answers(collection, X[:2])
    path.unlink()
    with Collection.open(path, HCOH(12, random_state=2), "manual") as memory:
        memory.upsert(range(100), X, y)
        assert memory.search(X[0], 100).ids != expected
    with Collection.open(path, search=search, readonly=True) as follower:
        same_answers(follower, X[:2])


def test_collections_of_others_in_the_engine_are_left_alone(path, data, milvus_server):
    from pymilvus import MilvusClient

    client, X, y = MilvusClient(milvus_server.uri), *data.take(50)
    client.create_collection("trips_2024", dimension=8)
    with Collection.open(path, HCOH(12, random_state=0), search=f"milvus:{milvus_server.uri}#trips") as collection:
        collection.upsert(range(50), X, y)
        collection.change_hasher(16)
    assert sorted(name for name in client.list_collections() if name.startswith("trips")) == [
        "trips_2",
        "trips_2024",
        "trips_generations",
    ]
    client.close()


def test_what_the_engine_fails_to_take_in_is_stored_and_searched_once_it_is_back(
    path, data, tmp_path, caplog, monkeypatch
):
    from tests.servers.milvus import Milvus

    from onlinehash.indexes.engines import milvus

    monkeypatch.setattr(milvus, "_CALL_SECONDS", 1)
    server, X, y = Milvus(tmp_path), *data.take(160)
    try:
        with Collection.open(path, HCOH(12, random_state=0), "manual", search=f"milvus:{server.uri}#off") as collection:
            collection.upsert(range(100), X[:100], y[:100])
            server.stop()
            with caplog.at_level(logging.WARNING):
                collection.upsert(range(100, 150), X[100:150], y[100:150])
            assert "is behind the store: Milvus at" in caplog.text
            collection.upsert(range(150, 160), X[150:], y[150:])  # what does not search needs no engine
            assert len(collection) == collection.count() == collection.stats().n_items == 160
            assert [item.id for item in collection.get([120, 155])] == [120, 155]
            with pytest.raises(StorageError, match="Milvus at"):
                collection.search(X[0])
            server.start()
            same_answers(collection, X[:2])
    finally:
        server.stop()


def test_items_in_postgresql_are_searched_by_the_engine_of_each_process(server, data):
    place, X, y = EnginePlace(server.url), *data.take(200)
    with (
        place.open(HCOH(12, random_state=0)) as collection,
        place.open(readonly=True, search="faiss") as reader,
        place.open(readonly=True, search="memory") as plain,
    ):
        collection.upsert([f"i{i}" for i in range(150)], X[:150], y[:150])
        collection.delete([f"i{i}" for i in range(20)])
        collection.upsert([f"i{i}" for i in range(10, 60)], X[150:], y[150:])
        collection.refresh()
        for one in (collection, reader, plain):
            same_answers(one, X[:3])
        assert [one.stats().index for one in (collection, reader, plain)] == ["memory", "faiss", "memory"]


@pytest.mark.parametrize(
    ("search", "error", "told"),
    [
        ("oracle", UnknownNameError, "Unknown search engine 'oracle'"),
        ("memory:3", InvalidInputError, "memory takes no options"),
        ("faiss:many", InvalidInputError, "a number of lists"),
        ("milvus", InvalidInputError, "names no server"),
        ("milvus:a.db#1 b", InvalidInputError, "is not a name for Milvus"),
    ],
)
def test_what_is_wrong_with_an_engine_is_said_and_leaves_the_file_free(tmp_path, search, error, told):
    place = FilePlace(tmp_path)
    place.open("lsh").close()
    with pytest.raises(error, match=told):
        place.open(search=search)
    place.open().close()


def test_a_damaged_file_of_milvus_lite_is_told_with_the_way_out(tmp_path, path, data, monkeypatch):
    from onlinehash.indexes.engines import milvus

    monkeypatch.setattr(milvus, "_CONNECT_SECONDS", 1)
    file, X, y = tmp_path / "codes.db", *data.take(50)
    with Collection.open(path, HCOH(12, random_state=0), search=f"milvus:{file}") as collection:
        collection.upsert(range(50), X, y)
    file.write_bytes(file.read_bytes()[:4096] + bytes(4096))
    with pytest.raises(StorageError, match="If the file is damaged, delete it: a collection fills it again"):
        Collection.open(path, search=f"milvus:{file}")
    file.unlink()
    with Collection.open(path, search=f"milvus:{file}") as collection:
        same_answers(collection, X[:2])


def test_a_collection_is_not_created_if_its_engine_is_wrong(tmp_path):
    place = FilePlace(tmp_path)
    with pytest.raises(UnknownNameError, match=r"Unknown search engine 'postgres'\. Known: faiss, gpu, memory, milvus"):
        place.open(HCOH(12), search="postgres")
    with place.open(HROH(24)) as collection:  # of another hasher than the one that was refused
        assert collection.stats().n_bits == 24


def test_a_change_while_the_engine_is_brought_up_to_date_is_not_lost(path, data, monkeypatch):
    X, y = data.take(60)
    with Collection.open(path, HCOH(12, random_state=0), "manual", search="faiss") as collection:
        collection.upsert(range(40), X[:40], y[:40])
        with monkeypatch.context() as patch:
            patch.setattr(collection._searcher._index, "_put", broken)
            collection.upsert(range(40, 50), X[40:50], y[40:50])
        read, begun, changed = collection._store.codes, threading.Event(), threading.Event()

        def slowly(*given):
            coded = read(*given)
            begun.set()
            changed.wait(0.3)  # the change comes now, or waits for what is read here
            return coded

        monkeypatch.setattr(collection._store, "codes", slowly)
        searching = threading.Thread(target=collection.search, args=(X[0],))
        searching.start()
        assert begun.wait(60)
        collection.upsert(range(50, 60), X[50:], y[50:])
        changed.set()
        searching.join()
        same_answers(collection, X[:3])
        assert len(collection.search(X[0], 100)) == 60


def broken(codes, ids):
    raise StorageError("the engine is full.")


def test_an_engine_that_fails_keeps_nobody_from_changing_and_reading(path, data, monkeypatch):
    X, y = data.take(60)
    with Collection.open(path, HCOH(12, random_state=0), "manual", search="faiss") as collection:
        collection.upsert(range(40), X[:40], y[:40])
        with monkeypatch.context() as patch:
            patch.setattr("onlinehash.indexes.engines.FaissIndex._put", lambda self, codes, ids: broken(codes, ids))
            collection.upsert(range(40, 50), X[40:50], y[40:50])
            collection.upsert(range(50, 60), X[50:], y[50:])
            collection.delete(0)
            assert len(collection) == len(list(collection)) == 59
            with pytest.raises(StorageError, match="the engine is full"):
                collection.search(X[0])
        same_answers(collection, X[:3])
        assert len(collection.search(X[0], 100)) == 59


def test_an_engine_that_fails_is_no_reason_to_refuse_items_whose_quality_is_measured(path, data, monkeypatch):
    X, y = data.take(60)
    with Collection.open(path, HCOH(12, random_state=0), "manual", search="faiss") as collection:
        collection.measure_quality()
        collection.upsert(range(40), X[:40], y[:40])
        with monkeypatch.context() as patch:
            patch.setattr("onlinehash.indexes.engines.FaissIndex._put", lambda self, codes, ids: broken(codes, ids))
            collection.upsert(range(40, 50), X[40:50], y[40:50])
            collection.upsert(range(50, 60), X[50:], y[50:])
        assert collection.stats().n_queries == 10  # of the first change, before which the engine was whole
        assert len(collection.search(X[0], 100)) == 60
