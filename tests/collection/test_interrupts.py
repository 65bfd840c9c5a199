"""A change that is interrupted, by the user or by an error, is done or not, and the next one works."""

import inspect
import random
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.collection.brute import contents, pairs, ranking
from tests.collection.refreshing import TIMEOUT, held, wait_for_refresh
from tests.thorough import times

import onlinehash
from onlinehash import HCOH, HROH, Collection
from onlinehash.collection import generations
from onlinehash.collection.stores.sql import SqlStore
from onlinehash.exceptions import StorageError

OURS = str(Path(onlinehash.__file__).parent)
N_ITEMS = 40
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 6)).astype(np.float32)
WIDER = rng.normal(size=(200, 9)).astype(np.float32)
Y = np.arange(200) % 4

CALLS = {
    "upsert": lambda items: items.upsert([3, 100, 101], X[50:53], [1, None, 2], [{"a": 1}] * 3, checkpoint={"n": 1}),
    "update": lambda items: items.update([4, 5], X[60:62], labels=[3, None]),
    "replacing all": lambda items: items.upsert(range(N_ITEMS), X[:N_ITEMS], (Y[:N_ITEMS] + 1) % 4),
    "link": lambda items: items.link([4, 50, 51], checkpoint={"n": 3}),
    "unlink": lambda items: items.unlink([4, 5]),
    "merge labels": lambda items: items.merge_labels(1, 2),
    "rename a label": lambda items: items.rename_label(1, 7),
    "update of payloads": lambda items: items.update([4, 5], payload=[{"a": 1}, None], checkpoint={"n": 2}),
    "delete": lambda items: items.delete([1, 2, 38]),
    "delete by a filter": lambda items: items.delete(where={"a": {"$lt": 5}}),
    "delete and unlearn": lambda items: items.delete([1, 2, 38], unlearn=True),
    "create an index": lambda items: items.create_index("a"),
    "refresh": lambda items: items.refresh(),
    "another number of bits": lambda items: items.change_hasher(32),
    "another hasher": lambda items: items.change_hasher(HCOH(8, random_state=1)),
    "migrate": lambda items: items.migrate(vectors=[(id, WIDER[id]) for id in range(150)]),
    "compact": lambda items: items.compact(),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A collection of some items, whose codes do not know the last of them."""
    path = tmp_path_factory.mktemp("template") / "items.oh"
    with Collection.open(path, HROH(16, n_components=16, random_state=0), "manual") as items:
        payload = [{"a": i} for i in range(N_ITEMS)]
        items.upsert(range(30), X[:30], Y[:30], payload[:30])
        items.upsert(range(30, N_ITEMS), X[30:N_ITEMS], Y[30:N_ITEMS], payload[30:])
        items.upsert([50, 51], X[198:])  # without labels
    return path


def state(items):
    """Return what a collection holds and has learned."""
    learned = (items.hasher.to_bytes(), items.stats().n_learned, items.label_counts())
    return contents(items), learned, items.indexes(), items.checkpoint("n"), items.n_features


def demand_exact(items):
    """Demand that searches are those of brute force, with a filter and without."""
    vectors = WIDER if items.n_features == 9 else X
    for query in vectors[[0, 150]]:
        assert pairs(items.search(query, 300, rescore=None)) == ranking(items, query)
        small = ranking(items, query, lambda item: isinstance(item.payload, dict) and item.payload["a"] < 20)
        assert pairs(items.search(query, 300, rescore=None, where={"a": {"$lt": 20}})) == small


def demand_whole(items, path, expected, change=True):
    """Demand that a collection holds one of the expected states, can be changed, and is the same when opened again."""
    wait_for_refresh(items)  # what was asked for before the interrupt goes on
    assert state(items) in expected
    demand_exact(items)
    if change:
        vectors = WIDER if items.n_features == 9 else X
        items.upsert([7, 500], vectors[[80, 81]], [1, 2], [{"a": 7}, None])
        items.delete(8)
        wait_for_refresh(items)
        demand_exact(items)
        assert {7, 500} <= contents(items).keys()
        assert 8 not in items
    report = items.check()
    assert report.ok, report
    before, _ = state(items), items.close()
    with Collection.open(path) as again:
        wait_for_refresh(again)
        assert state(again) == before
        demand_exact(again)


class Interrupt:
    """Raise KeyboardInterrupt at the n-th place in our own files where Python looks for signals."""

    def __init__(self, n=0):
        self._n, self.n_places = n, 0

    def _note(self, frame, event, arg):
        code = frame.f_code
        is_place = event == "c_return" or (event == "call" and not code.co_flags & inspect.CO_GENERATOR)
        if is_place and code.co_filename.startswith(OURS):
            self.n_places += 1
            if self.n_places == self._n:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)


def interrupted_at(name, template, tmp_path, sample):
    """Interrupt a call at some of all places, and demand that nothing is half done."""
    call, path = CALLS[name], tmp_path / "items.oh"

    def fresh():
        for suffix in ("", "-wal", "-shm", ".lock"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        shutil.copy(template, path)
        return Collection.open(path)

    with fresh() as items:
        before = state(items)
        with Interrupt() as counted:
            call(items)
        wait_for_refresh(items)
        after = state(items)
    n_interrupted = 0
    for n in sample(counted.n_places):
        items = fresh()
        try:
            with Interrupt(n):
                call(items)
        except KeyboardInterrupt:
            n_interrupted += 1
        try:
            demand_whole(items, path, (before, after), change=name != "migrate")
            if name == "migrate":
                demand_goes_on(path, after)
        except BaseException as error:
            error.add_note(f"interrupted at place {n} of {counted.n_places}")
            raise
    return n_interrupted


def demand_goes_on(path, after):
    with Collection.open(path) as items:
        if items.n_features != 9:
            CALLS["migrate"](items)
        assert items.migration is None
        assert state(items) == after
        demand_exact(items)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_interrupted_is_done_or_not(name, template, tmp_path):
    def sample(n):
        apart, n_last = random.Random(name).sample(range(1, n + 1), min(n, times(3, 60))), times(1, 20)
        return sorted({*apart, *range(max(1, n - n_last), n + 1)})

    assert interrupted_at(name, template, tmp_path, sample) > 2


STEPS = [
    (SqlStore, "put"),
    (SqlStore, "delete"),
    (SqlStore, "put_codes"),
    (SqlStore, "put_settings"),
    (SqlStore, "put_state"),
    (SqlStore, "put_generation"),
    (generations.Refresher, "after_change"),
]


FAILURES = [("before", StorageError("no room")), ("after", KeyboardInterrupt)]
FAILURES += times([], [("before", KeyboardInterrupt), ("after", MemoryError)])


@pytest.mark.slow
@pytest.mark.parametrize(("when", "error"), FAILURES, ids=repr)
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_step_that_fails_fails_its_change_and_no_later_one(template, tmp_path, monkeypatch, owner, step, when, error):
    path = tmp_path / "items.oh"
    n_failed = 0  # calls
    for name in ("upsert", "delete and unlearn", "refresh", "another number of bits"):
        for suffix in ("", "-wal", "-shm", ".lock"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        shutil.copy(template, path)
        items = Collection.open(path)
        before, whole, taken = state(items), getattr(owner, step), []

        def fails(*args, whole=whole, taken=taken, **kwargs):
            taken.append(step)
            if error is KeyboardInterrupt and threading.current_thread() is not threading.main_thread():
                return whole(*args, **kwargs)
            if when == "after":
                whole(*args, **kwargs)
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(owner, step, fails)
            try:
                CALLS[name](items)
                failed = False
            except (KeyboardInterrupt, StorageError, MemoryError):
                failed, n_failed = True, n_failed + 1
        with items._refresher._state:  # the thread has ended, or will, and does not try again and again
            assert items._refresher._state.wait_for(lambda: items._refresher._thread is None, TIMEOUT)  # noqa: B023
        if not taken:
            items.close()
            continue
        if failed and step != "after_change" and name in ("upsert", "delete and unlearn"):
            assert state(items) == before  # what fails inside the transaction of a change undoes it
        demand_exact(items)
        items.upsert(500, X[90], 1)
        items.refresh()
        demand_whole(items, path, [state(items)])
    assert n_failed or error is KeyboardInterrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError], ids=repr)
@pytest.mark.parametrize("step", ["apply", "catalogue.put", "catalogue.delete", "_index.upsert"])
def test_a_refresh_after_a_change_that_memory_does_not_show_knows_all_items(
    template, tmp_path, monkeypatch, step, error
):
    """The change is stored; nobody has read it again when the background thread makes new codes."""
    path = tmp_path / "items.oh"
    shutil.copy(template, path)
    monkeypatch.setattr(generations, "rows_per_chunk", lambda store: 15)
    items = Collection.open(path)

    def fails(*args, **kwargs):
        raise error

    with held(monkeypatch, items, 1) as there:
        items.refresh(wait=False)
        assert there.wait(TIMEOUT)
        with monkeypatch.context() as patch:
            owner = items._searcher
            *names, last = step.split(".")
            for name in names:
                owner = getattr(owner, name)
            patch.setattr(owner, last, fails)
            with pytest.raises(error):
                CALLS["upsert"](items)
    with items._refresher._state:
        assert items._refresher._state.wait_for(lambda: items._refresher._thread is None, TIMEOUT)
    assert {3, 100, 101} <= contents(items).keys()
    demand_whole(items, path, [state(items)])


def test_a_refresh_never_knows_what_a_change_that_failed_has_learned(template, tmp_path, monkeypatch):
    """The hasher has learned from items that were not stored, and is read again before it makes an encoder."""
    path = tmp_path / "items.oh"
    shutil.copy(template, path)
    items = Collection.open(path)

    def full(*args):
        raise StorageError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(SqlStore, "put", full)
        with pytest.raises(StorageError):
            CALLS["upsert"](items)
    items._refresher.ask()  # as a change before it would have done
    wait_for_refresh(items)
    assert items.stats().n_learned == items.hasher.version_ == N_ITEMS
    assert items.stats().version in (30, N_ITEMS)
    items.refresh()
    assert items.stats().version == N_ITEMS
    demand_whole(items, path, [state(items)])


def test_closing_that_is_interrupted_while_a_refresh_stops_can_be_done_again_or_not(template, tmp_path, monkeypatch):
    path = tmp_path / "items.oh"
    shutil.copy(template, path)
    monkeypatch.setattr(generations, "rows_per_chunk", lambda store: 15)
    items = Collection.open(path)
    with held(monkeypatch, items) as there:
        items.refresh(wait=False)
        assert there.wait(TIMEOUT)

        def join(self, timeout=None):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "join", join)
            with pytest.raises(KeyboardInterrupt):
                items.close()
    items.upsert(500, X[90], 1)  # it was not closed, and goes on
    items.refresh()
    assert items.stats().version == N_ITEMS + 1
    demand_whole(items, path, [state(items)])


def test_a_damaged_file_is_released_when_it_is_closed(template, tmp_path, monkeypatch):
    path = tmp_path / "items.oh"
    shutil.copy(template, path)
    items = Collection.open(path)
    items.upsert(500, X[90], 1)

    def damaged(*args):
        raise items._store.damage("something")

    with monkeypatch.context() as patch:
        patch.setattr(SqlStore, "put_state", damaged)
        items.close()
    with Collection.open(path) as again:
        assert 500 in again
