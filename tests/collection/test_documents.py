"""Documents in: a collection embeds them, keeps them, searches for them, and refuses another embedder."""

import numpy as np
import pytest

from onlinehash import HCOH, HROH, Collection, Embedder
from onlinehash.exceptions import InvalidInputError

INTENTS = {
    "card": ["where is my card", "my card did not arrive", "the card is lost", "card delivery is late"],
    "refund": ["i want a refund", "money back please", "refund my order", "when is the refund paid"],
    "login": ["i cannot log in", "password forgotten", "login fails", "reset my password"],
}
TEXTS = [text for texts in INTENTS.values() for text in texts]
LABELS = [label for label, texts in INTENTS.items() for _ in texts]


def lengths(texts):
    return [[len(text), 1.0, len(text.split())] for text in texts]


def fingerprints(texts):
    return [[len(text), text.count("a"), 2.0] for text in texts]


def test_documents_from_the_first_batch_to_the_answer(place):
    with place.open(HROH(32, n_components=64, random_state=0), embed="char_ngrams") as tickets:
        for start in range(0, len(TEXTS), 4):  # one intent after the other
            tickets.upsert(
                range(start, start + 4), documents=TEXTS[start : start + 4], labels=LABELS[start : start + 4]
            )
        tickets.upsert(99, documents="my credit card never came", labels="card", payload={"user": 7})
        tickets.refresh()
        assert tickets.embedder == "char_ngrams" and tickets.n_features == 1024
        found = tickets.search("where is my new card?", k=3, rescore="cosine")
        assert [item.labels for item in tickets.get(found.ids)] == ["card"] * 3
        assert tickets.get(99)[0].payload == {"user": 7, "document": "my credit card never came"}
        assert tickets.get(3)[0].payload == {"document": TEXTS[3]}
    with place.open() as tickets:  # the name is enough to embed again
        two = tickets.search(["reset the password", "give me the refund"], k=2, rescore="cosine")
        assert [[item.labels for item in tickets.get(ids)] for ids in two.ids] == [["login"] * 2, ["refund"] * 2]
        vectors = tickets.embed(["reset the password", "give me the refund"])
        assert two.ids == tickets.search(vectors, k=2, rescore="cosine").ids
        assert (
            tickets.range_search("where is my card", 32).ids
            == tickets.search("where is my card", 100, rescore=None).ids
        )
    with place.open(readonly=True) as tickets:
        assert tickets.search("where is my new card?", k=3, rescore="cosine").ids == found.ids


def test_another_embedder_is_refused_and_migrate_named(path):
    with Collection.open(path, HCOH(8, random_state=0), embed=lengths) as items:
        items.upsert(range(4), documents=TEXTS[:4], labels=LABELS[:4])
    for readonly in (False, True):
        with pytest.raises(InvalidInputError, match=r"embeds with 'lengths', not 'fingerprints'.*migrate"):
            Collection.open(path, embed=fingerprints, readonly=readonly)
    with (
        Collection.open(path, embed=Embedder("lengths", lambda texts: np.zeros((len(texts), 2)))) as items,
        pytest.raises(InvalidInputError, match=r"gives 2 numbers per document.* vectors of 3.*migrate"),
    ):
        items.search("x")
    with Collection.open(path, embed=lengths) as items:
        assert len(items.search("my card", k=2).ids) == 2
    with Collection.open(path) as items:
        with pytest.raises(InvalidInputError, match="'lengths', which is not registered"):
            items.search("x")
        assert len(items.search([7.0, 1.0, 0.0], k=2).ids) == 2  # vectors need none


def test_documents_need_an_embedder_and_one_form(items):
    with pytest.raises(InvalidInputError, match="no embedder for documents"):
        items.upsert(1, documents="x")
    with pytest.raises(InvalidInputError, match="no embedder for documents"):
        items.search("x")
    with pytest.raises(InvalidInputError, match="one of the two"):
        items.upsert(1)
    with pytest.raises(InvalidInputError, match="one of the two"):
        items.upsert(1, np.zeros(6), documents="x")
    assert items.embedder is None


def test_documents_that_are_text_or_paths_are_kept_in_the_payload(path):
    with Collection.open(path, HCOH(8, random_state=0), embed=lengths) as items:
        items.upsert([1, 2], documents=[b"bytes", "b"], labels=[0, 1], payload=[[1], None])
        items.upsert(3, documents=b"c")
        assert [item.payload for item in items.get([1, 2, 3])] == [[1], {"document": "b"}, None]
        items.update([1, 2], documents=[b"other", b"another"])
        assert [item.payload for item in items.get([1, 2])] == [[1], {}]  # not the document of before
        with pytest.raises(InvalidInputError, match="no fields to keep the document"):
            items.upsert(6, documents="f", payload=[1])
        with pytest.raises(InvalidInputError, match="pass a list with one per id"):
            items.upsert([6, 7], documents="f")
        with pytest.raises(InvalidInputError, match="one per document"):
            items.upsert([6, 7], documents=["f", "g"], payload=[{}])
        assert 6 not in items


def test_update_keeps_what_is_not_given(path):
    with Collection.open(path, HCOH(8, random_state=0), embed=lengths) as items:
        items.upsert([1, 2], documents=["one", "two"], labels=[0, 1], payload=[{"user": 1}, {"user": 2}])
        items.update(1, documents="three")
        assert items.get(1)[0].payload == {"user": 1, "document": "three"}
        assert items.get(1)[0].vectors.tolist() == lengths(["three"])[0] and items.get(1)[0].labels == 0
        items.update([1, 2], documents=["a", "b"], payload=[{"user": 3}, None])
        assert [item.payload for item in items.get([1, 2])] == [{"user": 3, "document": "a"}, {"document": "b"}]
        with pytest.raises(InvalidInputError, match="one of the two"):
            items.update(1, [1.0, 2.0, 3.0], documents="x")
        items.update([1, 2], payload=[{"user": 4}, None])
        assert [item.payload for item in items.get([1, 2])] == [{"user": 4, "document": "a"}, {"document": "b"}]
        items.update(1, payload={"document": "given"})
        assert items.get(1)[0].payload == {"document": "given"}
        with pytest.raises(InvalidInputError, match="no fields to keep the document"):
            items.update(2, payload=5)
        items.migrate(embed="char_ngrams:16")  # has all documents
