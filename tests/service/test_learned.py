"""What a service tells about what its collection has learned."""

import asyncio

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y, make, running

from onlinehash import HROH, Collection
from onlinehash.client import AsyncClient, Client
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import serve_in_thread

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


def test_a_client_gets_the_map_which_is_made_once_per_generation(path):
    make(path, 100)
    with Collection.open(path) as collection, serve_in_thread(collection) as url:
        with Client(url, retries=0) as client:
            shown, ours = client.map(limit=40), collection.map(limit=40)
            assert (shown.ids, shown.labels, shown.version) == (ours.ids, ours.labels, ours.version)
            np.testing.assert_allclose([shown.x, shown.y], [ours.x, ours.y], rtol=1e-5)
            with pytest.raises(InvalidInputError, match="limit is 2001, more than 2000"):
                client.map(limit=2001)
            assert 1000 not in client.map(limit=150).ids
            collection.upsert(1000, X[0], 9)
            assert 1000 not in client.map(limit=150).ids  # it is the same until there are new codes
            collection.refresh()
            assert 1000 in client.map(limit=150).ids

        async def ask():
            async with AsyncClient(url) as other:
                return await other.map(limit=5)

        assert len(asyncio.run(ask()).ids) == 5


def test_a_service_has_the_risk_at_every_coverage(path):
    with Collection.open(path, HROH(16, n_components=32, random_state=0)) as collection:
        with serve_in_thread(collection) as url, httpx.Client(base_url=f"{url}/api/v1") as http:
            assert http.get("/risk_coverage").status_code == 409
            assert not http.get("/stats").json()["decides"]
            wrong = np.where(np.arange(200) % 10 == 0, (Y + 1) % 4, Y)
            collection.upsert(range(200), X, wrong)
            collection.refresh()
            curve = http.get("/risk_coverage").json()
            assert http.get("/stats").json()["decides"]
        calibration = collection.encoder.calibration
        assert (curve["n_rows"], curve["coverage"][-1]) == (200, 1.0)
        assert curve["error"][-1] == pytest.approx(1 - calibration.correct.mean())
        assert curve["coverage"] == sorted(curve["coverage"])
        for max_error in (0.05, 0.1, 0.15, 0.3):
            good = [i for i, bound in enumerate(curve["bound"]) if bound <= max_error]
            expected = curve["threshold"][good[-1]] if good else float("inf")
            assert calibration.threshold(max_error) == pytest.approx(expected)
