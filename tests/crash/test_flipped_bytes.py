"""One flipped bit in a file: every answer is that of the whole file, or an error that says what is damaged."""

import random

import numpy as np
import pytest
from tests.thorough import times

from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.exceptions import FileFormatError, OnlineHashError

pytestmark = pytest.mark.slow

N_FLIPS = times(25, 250)  # of each kind of ids
X = np.random.default_rng(0).normal(size=(260, 12)).astype(np.float32)
QUERIES = X[:3]
KINDS = {
    "int": (lambda i: 7 * i - 300, HCOH(n_bits=20, random_state=0)),
    "str": ("item {}".format, HROH(n_bits=20, n_components=16, random_state=0)),
}


def build(path, id, hasher):
    """Write a collection that has everything: labels, payloads, items replaced and deleted, several generations."""
    labels = [None if i % 11 == 0 else [i % 4, 9] if i % 7 == 0 else i % 4 for i in range(260)]
    payload = [{"title": f"number {i}"} if i % 3 else None for i in range(260)]
    ids = [id(i) for i in range(260)]
    with Collection.open(path, hasher, "manual") as collection:
        collection.upsert(ids[:120], X[:120], labels[:120], payload[:120])
        collection.refresh()
        collection.upsert(ids[120:260], X[120:], labels[120:], payload[120:], checkpoint={"offset": 7})
        collection.delete(ids[10:20])
        collection.upsert(ids[5:15], X[200:210], labels[200:210])
        collection.refresh()
        collection.update(ids[30:33], payload=[1, 2, 3])
        collection.delete(ids[40:42])
        collection.upsert(ids[50:60], X[100:110], labels[100:110])
        collection._learner.n_unsaved_bytes = 0  # closed as if killed: the last changes are learned again
    return ids


def answers(collection, ids):
    """Yield all that a collection can tell, in many small answers."""
    yield "len", len(collection)
    yield "items", [_item(item) for item in collection.items()]
    for id in ids[::7]:
        yield id, [_item(item) for item in collection.get([id])] if id in collection else None
    yield "ids", list(collection)
    yield "classes", collection.label_counts()
    yield "codes", [part.tolist() if isinstance(part, np.ndarray) else part for part in collection.codes()]
    for given in (
        {},
        {"labels": 1},
        {"labels": [0, 9]},
        {"ids": ids[3:50]},
        {"rescore": "cosine"},
        {"asymmetric": True},
    ):
        hits = collection.search(QUERIES, 300, **given)
        yield given, (hits.ids, hits.distances)
    stats = collection.stats()
    yield (
        "stats",
        (stats.n_items, stats.n_searchable, stats.n_learned, stats.version, stats.bits_recomputed, stats.n_bits),
    )
    yield "checkpoint", collection.checkpoint("offset")
    yield "encoder", collection.encoder.to_bytes()
    yield "hasher", collection.hasher.to_bytes()


def _item(item):
    return item.id, item.vectors.tolist(), item.labels, item.payload, item.version


def change(collection, ids):
    """Yield what a collection tells once it is changed, learns again from all items and makes all codes again."""
    collection.upsert(ids[:3], X[:3], [1, 2, 3])
    collection.delete(ids[100:103])
    collection.change_hasher(LSH(n_bits=16, random_state=1))
    yield from answers(collection, ids)
    yield "hasher", collection.hasher.to_bytes()


class Flipped:
    """A file, what it tells while it is whole, and what it tells with a bit flipped."""

    def __init__(self, path, id, hasher):
        self.path, self.ids = path, build(path, id, hasher)
        self.whole = path.read_bytes()
        with Collection.open(path, readonly=True) as collection:
            self.answers = list(answers(collection, self.ids))
        with Collection.open(path) as collection:
            self.changed = list(change(collection, self.ids))

    def errors(self, place, bit, writing=True):
        """Return the errors of reading and perhaps changing the file, having compared all answers."""
        flipped, errors = bytearray(self.whole), []
        flipped[place] ^= 1 << bit
        tries = [(True, answers, self.answers), (False, change, self.changed)]
        for readonly, ask, expected in tries if writing else tries[:1]:
            path = self.path.with_name(f"{place} {bit} {readonly}.oh")  # what is left beside another is not its own
            path.write_bytes(flipped)
            try:
                with Collection.open(path, readonly=readonly) as collection:
                    for (question, answer), (_, known) in zip(ask(collection, self.ids), expected, strict=True):
                        assert answer == known, f"bit {bit} of byte {place}: {question}"
            except OnlineHashError as error:
                errors.append(error)
        return errors


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_changes_no_answer_without_an_error(tmp_path, kind):
    file, rng, n_noticed = Flipped(tmp_path / "items.oh", *KINDS[kind]), random.Random(kind), 0
    for i in range(N_FLIPS):
        errors = file.errors(rng.randrange(len(file.whole)), rng.randrange(8), writing=i % 10 == 0)
        assert all(isinstance(error, FileFormatError) for error in errors), errors
        n_noticed += bool(errors)
    assert n_noticed > N_FLIPS // 5
