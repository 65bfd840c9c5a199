import httpx
import numpy as np
import pytest
from tests.service.running import running

from onlinehash.datasets import load_dataset
from onlinehash.demo.stream import Demo, Race, open_demo
from onlinehash.exceptions import InvalidInputError

pytestmark = pytest.mark.slow

KEY = "a-key-for-the-demo-to-write"


@pytest.fixture(scope="module")
def demo():
    with open_demo("digits") as demo:
        yield demo


def test_classes_join_one_by_one_and_quality_rises(demo):
    demo.reset()
    state = demo.step(100)
    while state["position"] < 500:
        state = demo.step(100)
    joined = [one["n"] for one in state["first_seen"]]
    assert len(joined) == 10 and joined[3:] == list(range(60, 400, 50))
    points = demo.state()["points"]
    assert points[-1]["fresh"] > 0.9 > 0.3 > points[0]["map"]
    assert len(demo.collection) == state["position"] == points[-1]["n"]


def test_starting_over_gives_the_same_again(demo):
    first = demo.reset()
    demo.step(100)
    demo.collection.delete([3, 70])
    assert demo.reset() == first
    assert len(demo.collection) == 60
    assert demo.collection.stats().n_learned == 60


def test_a_refresh_is_measured(demo):
    demo.reset()
    demo.step(5)
    demo.collection.refresh()
    last = demo.state()["points"][-1]
    assert last["map"] == last["fresh"] and last["version"] == last["n"] == 65


def test_the_stream_ends(demo):
    demo.reset()
    state = demo.state()
    while state["position"] < state["n_stream"]:
        state = demo.step(100)
    assert demo.step(100)["points"] == []
    assert len(demo.collection) == state["n_stream"]


def test_the_race_is_the_same_however_it_is_asked_for():
    split = load_dataset("digits").split()
    some, whole = Race(split), Race(split)
    assert some.points(3, 2) == whole.points(0, 5)[3:]
    end = whole.points(whole.n_points - 1, 10)
    assert len(end) == 1
    assert end[0]["hroh"]["map"] > whole.shuffled() > end[0]["hcoh"]["map"] + 0.1
    assert np.isclose(np.mean(list(end[0]["hcoh"]["by_class"].values())), end[0]["hcoh"]["map"], atol=1e-3)


def test_data_without_pictures_are_refused(demo):
    class Sounds:
        name = "sounds"

    with pytest.raises(InvalidInputError, match="'sounds' has no pictures; use digits"):
        Demo(demo.collection, Sounds())


def test_its_routes_ask_for_keys_and_keep_to_limits():
    env = {"ONLINEHASH_WRITE_KEY": KEY, "ONLINEHASH_READ_KEY": KEY[::-1]}
    with (
        running("--demo", "--dataset", "digits", env=env) as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        reader, writer = ({"Authorization": f"Bearer {key}"} for key in (KEY[::-1], KEY))
        assert http.get("/demo.json").json() is True
        assert http.get("/api/v1/demo").status_code == 401
        assert http.get("/api/v1/demo", headers=reader).json()["shape"] == [8, 8]
        assert http.post("/api/v1/demo/step", headers=reader).status_code == 403
        assert http.post("/api/v1/demo/step?n=5", headers=writer).json()["position"] == 65
        refused = http.post("/api/v1/demo/step?n=1000000", headers=writer)
        assert refused.status_code == 422 and refused.json()["errors"][0]["field"] == "n"
        assert http.get("/api/v1/demo/race?start=59&n=9", headers=reader).json()["n_points"] == 60
