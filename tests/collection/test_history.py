import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection import insight
from onlinehash.exceptions import StorageError


def test_encoders_and_quality_are_kept_in_the_collection(place, data):
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        assert collection.history() == insight.History([], [])
        collection.measure_quality(per_call=5)
        for start in range(0, 3000, 500):
            X, y = data.take(500)
            collection.upsert(range(start, start + 500), X, y)
        collection.refresh()
        kept, stats = collection.history(), collection.stats()
        assert [(one.generation, one.version, one.n_items) for one in kept.encoders] == [(1, 500, 500), (2, 3000, 3000)]
        assert [one.n_learned for one in kept.quality] == [1000, 2000, 3000]  # the first items find no codes
        assert [one.sequence for one in kept.quality] == [1000, 2000, 3000]
        last = kept.quality[-1]
        assert (last.precision, last.map, last.n_queries) == (
            round(stats.precision, 6),
            stats.mean_average_precision,
            stats.n_queries,
        )
        assert 0.5 < last.precision <= 1
        assert 0.5 < last.map <= 1
        assert all(one.at.utcoffset().total_seconds() == 0 and one.seconds >= 0 for one in kept.encoders)
    with place.open(readonly=True) as collection:
        assert collection.history() == kept
        assert (collection.generation, collection.unlearns, collection.embeds) == (2, False, None)


def test_a_migration_is_one_of_the_encoders(place):
    texts, labels = ["my card is lost", "lost card", "refund, please", "a refund"], [0, 0, 1, 1]
    with place.open(HCOH(n_bits=8, random_state=0), "manual", embed="char_ngrams:32") as tickets:
        tickets.upsert(range(4), documents=texts, labels=labels)
        tickets.migrate(embed="char_ngrams:64")
        records = tickets.history().encoders
        assert [(one.generation, one.n_items) for one in records] == [(1, 4), (tickets.generation, 4)]
        assert tickets.embeds == "text"


def test_a_cut_over_that_fails_leaves_no_record(items, monkeypatch):
    X, y = [[0.5] * 6], [1]
    items.upsert(100, X[0], y[0])
    before = items.history()

    def fail(*_):
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("onlinehash.collection.generations.with_record", fail)
        with pytest.raises(StorageError, match="full"):
            items.refresh()
    assert items.history() == before
    assert items.generation == 1
    items.refresh()
    assert [one.generation for one in items.history().encoders] == [1, items.generation]


def test_the_last_records_are_kept(path, monkeypatch):
    monkeypatch.setattr(insight, "KEPT_RECORDS", 3)
    with Collection.open(path, HCOH(n_bits=8, random_state=0), "manual") as collection:
        for i in range(6):
            collection.upsert(i, [i, 1.0], i % 2)
            collection.refresh()
        assert [one.generation for one in collection.history().encoders] == [4, 5, 6]


def test_quality_is_recorded_once_a_minute_where_little_is_learned(path, data, monkeypatch):
    time = [0.0]
    monkeypatch.setattr("onlinehash.collection.insight.monotonic", lambda: time[0])
    with Collection.open(path, HCOH(n_bits=8, random_state=0), "manual") as collection:
        collection.measure_quality()
        for i in range(10):
            X, y = data.take(2)
            collection.upsert([2 * i, 2 * i + 1], X, y)
            time[0] += 20
            collection.update(0, labels=1)  # no query
        assert [one.n_learned for one in collection.history().quality] == [5, 12, 21, 30]
