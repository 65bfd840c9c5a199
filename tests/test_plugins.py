"""Hashers, engines, stores, streams and embedders are found by entry points, ours and those of others."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from onlinehash._internal import plugins
from onlinehash.collection.engines import ENGINES
from onlinehash.collection.stores import STORES
from onlinehash.embedders import EMBEDDERS, documents_of, known_embedders, make_embedder
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import HASHERS
from onlinehash.streams import SOURCES, open_source

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


class Lines:
    """A source of others, as far as it is asked here."""

    def __init__(self, place):
        self.place = place


def lengths(model):
    return lambda texts: [[len(text)] for text in texts]


lengths.takes = "image"


@pytest.fixture
def another_package(monkeypatch):
    offered = {"onlinehash.streams": {"lines": "Lines", "txt": "Lines"}, "onlinehash.embedders": {"lengths": "lengths"}}

    def entry_points(group):
        return [EntryPoint(name, f"{__name__}:{what}", group) for name, what in offered[group].items()]

    monkeypatch.setattr(plugins, "entry_points", entry_points)


def test_ours_are_declared_as_those_of_others_are():
    declared = dict(PROJECT["entry-points"])
    assert set(declared.pop("onlinehash.hashers")) == set(HASHERS)
    ours = {"streams": SOURCES, "embedders": EMBEDDERS, "engines": ENGINES, "stores": STORES}
    assert declared == {f"onlinehash.{group}": names for group, names in ours.items()}
    for group, ours in declared.items():
        found = plugins.plugins(group, ours)
        for name in set(ours) - {"gpu"}:  # which needs one
            assert callable(found[name].load())


def test_a_stream_of_another_package_is_opened_by_its_scheme_or_ending(another_package, tmp_path):
    assert open_source("lines://localhost/items?speed=2").place.options("speed") == {"speed": "2"}
    (tmp_path / "a.txt").touch()
    assert open_source(tmp_path / "a.txt").place == tmp_path / "a.txt"
    with pytest.raises(InvalidInputError, match="nothing that items come from"):
        open_source("files://localhost/items")


def test_an_embedder_of_another_package_is_made_by_its_name(another_package):
    assert np.array_equal(make_embedder("lengths")(["ab"]), [[2]])
    assert (documents_of("lengths:any"), "lengths" in known_embedders()) == ("image", True)
