"""A hasher from outside is found by its name once it is registered."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import onlinehash as oh
from onlinehash.cli import app
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.hashers import HASHERS, HCOH, HROH, LSH

MODULE = """
import onlinehash as oh

@oh.register_hasher
class Own(oh.HCOH):
    name = "own"
"""
NOT_REGISTERED = (
    "The hasher 'own' is not registered here; import the module that defines it and call register_hasher before."
)
RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(3, 8))[Y] + 0.1 * RNG.normal(size=(60, 8))


@pytest.fixture(autouse=True)
def registry():
    before = dict(HASHERS)
    yield
    HASHERS.clear()
    HASHERS.update(before)


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_hashers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_hashers", None)


def python(program):
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.strip()


IN_ANOTHER_PROCESS = """
import numpy as np, onlinehash as oh

def use():
    for call in (
        lambda: oh.Collection.open("items.oh").search(np.load("x.npy"), k=5).ids,
        lambda: type(oh.load_hasher("own.oh")).__name__,
    ):
        try:
            print(call())
        except oh.OnlineHashError as error:
            print(error)

use()
import own_hashers
use()
"""


@pytest.mark.slow
def test_a_registered_hasher_goes_the_whole_way(module):
    from own_hashers import Own

    with oh.Collection.open("items.oh", "own") as items:
        for start in (0, 20, 40):
            batch = slice(start, start + 20)
            items.upsert(range(start, start + 20), X[batch], Y[batch])
        items.refresh()
        found = items.search(X[:1], k=5).ids
        assert type(items.hasher) is Own
        items.hasher.save("own.oh")
    assert type(oh.load_hasher("own.oh")) is Own
    np.save("x.npy", X[:1])
    told = python(IN_ANOTHER_PROCESS).splitlines()
    assert len(told) == 4
    assert all(line.endswith(NOT_REGISTERED) for line in told[:2])
    assert told[2:] == [str(found), "Own"]


def test_a_hasher_of_an_installed_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    (tmp_path / "plugged.py").write_text("import onlinehash as oh\n\nclass Plugged(oh.LSH):\n    name = 'plugged'\n")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[onlinehash.hashers]\nplugged = plugged:Plugged\n")
    with pytest.raises(oh.exceptions.UnknownNameError):
        oh.make_hasher("plugged")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(oh.exceptions.UnknownNameError, match="Did you mean 'plugged'"):
        oh.make_hasher("pluged")
    saved = oh.make_hasher("plugged", n_bits=8).fit(X).to_bytes()
    del HASHERS["plugged"]
    assert type(oh.load_hasher(saved)).__name__ == "Plugged"


def test_every_hasher_of_ours_is_declared_as_an_entry_point():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]
    ours = {name: f"{hasher.__module__}:{hasher.__qualname__}" for name, hasher in HASHERS.items()}
    assert declared["onlinehash.hashers"] == ours


def test_an_unknown_parameter_is_refused_by_name():
    with pytest.raises(
        oh.exceptions.UnknownNameError, match=r"'nbits'. Did you mean 'n_bits'\? Known: .*learning_rate"
    ):
        oh.make_hasher("hcoh", nbits=3)


def test_the_command_line_takes_a_class_and_a_module(module):
    np.savez("items.npz", X=X, y=Y)
    runner = CliRunner()
    made = runner.invoke(app, ["collection", "create", "items.oh", "--method", "own_hashers:Own", "--bits", "16"])
    assert (made.exit_code, "which learns with Own(n_bits=16" in made.output) == (0, True), made.output
    learned = runner.invoke(app, ["learn", "items.npz", "--method", "own_hashers:Own", "--out", "own.oh"])
    assert learned.exit_code == 0, learned.output
    del HASHERS["own"], sys.modules["own_hashers"]
    refused = runner.invoke(app, ["ingest", "items.npz", "--into", "items.oh"])
    assert (refused.exit_code, "is not registered here; import the module" in refused.output) == (1, True)
    added = runner.invoke(app, ["ingest", "items.npz", "--into", "items.oh", "--import", "own_hashers"])
    assert added.exit_code == 0, added.output
    encoded = runner.invoke(app, ["encode", "own.oh", "items.npz", "--out", "codes.npy", "--import", "own_hashers"])
    assert encoded.exit_code == 0, encoded.output
    missing = runner.invoke(app, ["ingest", "items.npz", "--into", "items.oh", "--import", "nowhere"])
    assert (missing.exit_code, "There is no module 'nowhere'" in missing.output) == (1, True), missing.output


def test_a_plan_compares_a_registered_hasher_by_name(module):
    import own_hashers  # noqa: F401

    from onlinehash.experiments.plan import parse_plan

    content = {"dataset": "digits", "bits": [8], "seeds": [0], "methods": {"Own": {}}}
    assert [run.hasher for run in parse_plan("mine", content).runs] == ["own_hashers:Own"]


class Own(LSH):
    name = "own"


class Unnamed(oh.OnlineHasher):
    pass


class Loud(LSH):
    name = "Loud!"


class Heir(LSH):
    pass


@pytest.mark.parametrize(
    "given, message",
    [
        (dict, "is not a subclass of OnlineHasher"),
        (LSH(8), "is not a subclass of OnlineHasher"),
        (Unnamed, "Unnamed.name=None is not a lower-case identifier"),
        (Loud, "Loud.name='Loud!' is not a lower-case identifier"),
        (Heir, "The name 'lsh' of Heir is taken by LSH; give Heir another name"),
    ],
)
def test_a_class_that_breaks_the_form_is_refused(given, message):
    before = dict(HASHERS)
    with pytest.raises(InvalidInputError, match=message):
        oh.register_hasher(given)
    assert before == HASHERS


def test_a_class_may_be_registered_and_defined_again():
    assert oh.register_hasher(oh.register_hasher(Own)) is Own
    again = type("Own", (Own,), {"__module__": __name__, "__qualname__": "Own"})  # as a notebook does
    assert oh.register_hasher(again) is again
    assert type(oh.make_hasher("own")) is again
    assert oh.register_hasher(HCOH) is HCOH


def test_an_object_of_another_class_than_its_name_says_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="Heir is saved under the name 'lsh', which is that of another class"):
        oh.Collection.open(tmp_path / "items.oh", Heir(8))
    with pytest.raises(FileFormatError, match="The hasher 'own' is not registered here"):
        oh.Collection.open(tmp_path / "items.oh", Own(8))
    assert not list(tmp_path.iterdir())


class OwnSums(HROH):
    name = "own_sums"


def test_capabilities_that_are_declared_are_used_by_a_collection(tmp_path):
    oh.register_hasher(OwnSums)
    with oh.Collection.open(tmp_path / "items.oh", OwnSums(16, n_components=32, random_state=0)) as items:
        items.upsert(range(60), X, Y)
        items.delete(range(10), unlearn=True)
        assert items.hasher.version_ == 70
        items.change_hasher(8)
        assert (type(items.hasher), items.hasher.n_bits, items.hasher.version_) == (OwnSums, 8, 70)
