import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import onlinehash

ROOT = Path(__file__).parents[1]


def test_every_public_name_can_be_imported_and_is_documented():
    for name in dir(onlinehash):
        thing = getattr(onlinehash, name)
        assert name == "__version__" or thing.__doc__
    assert {*onlinehash.__all__, "AsyncClient", "Client"} == set(dir(onlinehash))
    with pytest.raises(AttributeError, match="no attribute 'HCHO'"):
        onlinehash.HCHO  # noqa: B018


def test_importing_is_silent_and_loads_nothing_heavy():
    program = (
        "import sys, onlinehash; heavy = {'numba', 'sklearn', 'scipy', 'matplotlib', 'faiss', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")


USE = """
import sys
import numpy as np
from onlinehash import HROH, Collection
vectors = np.random.default_rng(0).normal(size=(20, 4))
with Collection.open("items.oh", HROH(16, n_components=8, random_state=0)) as items:
    items.upsert(range(20), vectors, np.arange(20) % 2)
    items.refresh()
    items.search(vectors[0], 3)
print(sorted({"sklearn", "pandas", "pyarrow", "matplotlib"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_a_collection_does_without_scikit_learn(tmp_path):
    run = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout == "[]\n", run.stderr


def test_every_package_of_the_reference_is_reached_by_attribute():
    names = {path.stem for path in (ROOT / "docs" / "reference").glob("*.md")} - {"index"}
    for name in names:  # as for the first time: this process may have imported it
        assert onlinehash.__getattr__(name) is importlib.import_module(f"onlinehash.{name}")


@pytest.mark.slow
def test_a_star_import_needs_no_extra_and_one_that_is_not_installed_is_named_with_the_way_to_get_it(tmp_path):
    calls = {
        "postgres": "oh.Collection.open('a', 'lsh', store='postgresql://127.0.0.1/a')",
        "milvus": "oh.indexes.engines.MilvusIndex",
        "faiss": "oh.indexes.engines.FaissIndex",
        "redis": "open_source('redis://127.0.0.1/0/a')",
        "nats": "open_source('nats://127.0.0.1/a')",
        "client": "oh.Client",
        "serve": "oh.service.create_app",
    }
    modules = (
        "psycopg",
        "pymilvus",
        "faiss",
        "redis",
        "nats",
        "httpx",
        "starlette",
        "msgspec",
        "uvicorn",
    )
    program = f"""
import sys
sys.modules.update(dict.fromkeys({modules}))  # as if they were not there
from onlinehash import *
import onlinehash as oh
from onlinehash.streams import open_source
from onlinehash.exceptions import MissingExtraError
assert Collection is oh.Collection
for extra, call in {calls}.items():
    try:
        eval(call)
    except MissingExtraError as error:
        print(extra, f"pip install '.[{{extra}}]'" in str(error))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout.splitlines() == [f"{extra} True" for extra in calls], run.stderr


@pytest.mark.slow
def test_what_a_newcomer_does_first_works(capsys):
    runpy.run_path(str(ROOT / "tests" / "smoke.py"))
    assert f"onlinehash {onlinehash.__version__} works" in capsys.readouterr().out


def test_the_files_and_tables_that_contributors_are_sent_to_exist():
    rows = re.findall(r"^\| an? .*\|$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    assert len(rows) >= 7
    for row in rows:
        _, _, folder, entry, tests, _ = row.split("|")
        for path in re.findall(r"`((?:src|tests)/[^`]*)`", folder + tests):
            assert (ROOT / path).exists(), path
        name, file = re.findall(r"`([^`(]*)", entry)[::2]
        assert name in (ROOT / "src" / "onlinehash" / file).read_text(), row


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["title"], citation["version"]) == ("onlinehash", onlinehash.__version__)
    assert citation["references"][0]["doi"] in (ROOT / "README.md").read_text()
