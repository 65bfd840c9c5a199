"""Documents over HTTP: text in, text searched."""

import pytest

from onlinehash import HROH, Collection
from onlinehash.client import Client
from onlinehash.exceptions import InvalidInputError, ServiceError
from onlinehash.service import serve_in_thread

pytestmark = pytest.mark.slow

TEXTS = ["where is my card", "my card is lost", "i want a refund", "refund my order"]
LABELS = ["card", "card", "refund", "refund"]


def test_a_client_sends_documents_and_searches_for_them(tmp_path):
    with (
        Collection.open(
            tmp_path / "tickets.oh", HROH(32, n_components=64, random_state=0), embed="char_ngrams"
        ) as tickets,
        serve_in_thread(tickets) as url,
        Client(url, retries=0) as client,
    ):
        client.upsert(range(4), documents=TEXTS, labels=LABELS)
        client.upsert(4, documents="no card in the mail", labels="card", payload={"user": 7})
        client.update(3, documents="refund the order, please")
        client.refresh()
        assert client.search("card lost", k=2, rescore="cosine").ids[0] == 1
        assert client.search(["card lost", "a refund"], k=1, rescore="cosine").ids == [[1], [2]]
        assert client.search("refund", k=5, labels="card").ids == tickets.search("refund", k=5, labels="card").ids
        assert client.range_search("refund", 32).ids == tickets.range_search("refund", 32).ids
        assert client.get(3)[0].payload == {"document": "refund the order, please"}
        assert client.get(4)[0].payload == {"user": 7, "document": "no card in the mail"}
        with pytest.raises(InvalidInputError, match="one of the two"):
            client.upsert(5)
        with pytest.raises((ServiceError, InvalidInputError), match="3 values for 2 ids"):
            client.upsert([5, 6], documents=["x"] * 3)


def test_text_is_refused_without_an_embedder(tmp_path):
    with (
        Collection.open(tmp_path / "items.oh", "hcoh") as items,
        serve_in_thread(items) as url,
        Client(url, retries=0) as client,
    ):
        for call in (lambda: client.search("x"), lambda: client.upsert(1, documents="x")):
            with pytest.raises((ServiceError, InvalidInputError), match="no embedder"):
                call()
