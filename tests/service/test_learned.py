"""What a service tells about what its collection has learned."""

import asyncio

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y, make, running

from onlinehash import HROH, Collection
from onlinehash.client import AsyncClient, Client
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import Limits, serve_in_thread

pytestmark = pytest.mark.slow


def test_a_service_measures_quality_and_keeps_its_history(path):
    make(path, 50)
    with running(path) as server, Client(server.url) as client:
        client.upsert(range(50, 150), X[50:150], Y[50:150])
        client.refresh()
        stats, history = client.stats(), client.history()
        assert (stats.n_queries, len(history.quality)) == (16, 1)
        assert history.quality[0].precision == round(stats.precision, 6)
        assert history.quality[0].map == stats.mean_average_precision
        assert [(one.version, one.n_items) for one in history.encoders] == [(50, 50), (150, 150)]
        assert server.stop() == 0
    with running(path, "--no-quality") as server, Client(server.url) as client:
        client.upsert(range(150, 200), X[150:], Y[150:])
        assert client.history() == history
        assert client.stats().precision is None

        async def ask():
            async with AsyncClient(server.url) as other:
                return await other.history()

        assert asyncio.run(ask()) == history
        answer = httpx.get(f"{server.url}/api/v1/history").json()
        assert answer["encoders"][0]["at"].endswith("Z")


def test_stats_tell_what_the_collection_takes(path):
    with (
        Collection.open(path, HROH(8, n_components=32), "manual", embed="char_ngrams:64") as collection,
        serve_in_thread(collection) as url,
    ):
        empty = httpx.get(f"{url}/api/v1/stats").json()
        assert {name: empty[name] for name in ("id_type", "sequence", "embedder", "embeds", "unlearns", "media")} == {
            "id_type": None,
            "sequence": 0,
            "embedder": "char_ngrams:64",
            "embeds": "text",
            "unlearns": True,
            "media": False,
        }
        collection.upsert(["a", "b"], documents=["a card", "a refund"], labels=[0, 1])
        stats = httpx.get(f"{url}/api/v1/stats").json()
        assert (stats["id_type"], stats["sequence"]) == ("str", 2)


def test_a_client_gets_the_map_and_the_codewords(path):
    make(path, 100)
    with Collection.open(path) as collection, serve_in_thread(collection, limits=Limits(max_batch_size=150)) as url:
        with Client(url, retries=0) as client:
            shown, ours = client.map(limit=40), collection.map(limit=40)
            assert (shown.ids, shown.labels, shown.version) == (ours.ids, ours.labels, ours.version)
            np.testing.assert_allclose([shown.x, shown.y], [ours.x, ours.y], atol=1e-5)
            for theirs, own in zip(client.codewords().classes, collection.codewords().classes, strict=True):
                assert (theirs.label, theirs.n_items) == (own.label, own.n_items)
                assert (theirs.codeword == own.codeword).all()
                np.testing.assert_allclose(theirs.ones, own.ones, atol=1e-3)
            with pytest.raises(InvalidInputError, match="limit is 151, more than 150"):
                client.map(limit=151)
            collection.upsert(1000, X[0], 9)  # what is remembered is made again
            assert 1000 in client.map(limit=150).ids
            assert client.codewords().n_classes == 5

        async def ask():
            async with AsyncClient(url) as other:
                return await other.map(limit=5), await other.codewords()

        few, words = asyncio.run(ask())
        assert (len(few.ids), words.n_classes) == (5, 5)
