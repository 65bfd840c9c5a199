"""The Python of the documentation runs as printed, and generated pages are fresh."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from tests.servers.postgres import postgres

import onlinehash as oh
from onlinehash.checks import hasher_checks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{i}")
    for page in PAGES
    if page.parent.name != "examples"  # whose blocks are cells of one program, which test_examples.py runs
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block, capsys, few_components):
    exec(compile(block, "documentation", "exec"), {})
    assert capsys.readouterr().out


# Fragments need something at hand, a server or a collection: what they call it is in their namespace.
FRAGMENTS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{i}")
    for page in PAGES
    if page.name != "scaling.md"  # whose fragment needs a cluster, and runs where there is one
    for i, block in enumerate(re.findall(r"```py\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.fixture(scope="module")
def server():
    with postgres() as running:
        yield running


@pytest.fixture
def at_hand(tmp_path, monkeypatch, few_components):
    monkeypatch.chdir(tmp_path)
    X, y = oh.load_dataset("digits").split().stream
    np.save("X.npy", X)
    hasher = oh.HROH(n_bits=32, n_components=64, random_state=0)
    with oh.Collection.open("photos.oh", hasher) as collection:
        collection.upsert(range(100), X[:100], y[:100])
        yield {
            "oh": oh, "np": np, "pytest": pytest, "hasher_checks": hasher_checks, "MeanHasher": oh.HCOH,
            "collection": collection, "hasher": hasher, "y": y,
            "ids": range(100), "vectors": X[:100], "labels": y[:100], "vector": X[100],
        }  # fmt: skip


@pytest.mark.parametrize("block", FRAGMENTS)
def test_fragment_runs(block, at_hand, request):
    if "postgresql:" in block:
        url = request.getfixturevalue("server").url
        block = re.sub(r"postgresql://[^\"]*", url, block)
        oh.Collection.open("photos", oh.HROH(32), store=url).close()
    exec(compile(block, "documentation", "exec"), at_hand)
    for name in {"photos", "readers"} & set(at_hand):
        at_hand[name].close()


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path, make", generator().PAGES.items(), ids=lambda value: getattr(value, "name", ""))
def test_generated_pages_are_fresh(path, make):
    assert path.read_text() == make(), "run: make docs"


MARKED = [page for page in (*PAGES, ROOT / "benchmarks" / "README.md") if "<!-- end -->" in page.read_text()]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_parts_are_made_of_results_alone(page, monkeypatch):
    """Nothing between the marks survives from the page itself: every number there comes from a file of results."""
    text, make, read = page.read_text(), generator().PAGES[page], Path.read_text
    emptied = re.sub(r"(?s)(<!-- (?!end)[^>]* -->\n).*?(<!-- end -->)", r"\1\2", text)
    assert emptied != text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: emptied if path == page else read(path, **how))
    assert make() == text


def test_every_hasher_has_a_page():
    from onlinehash.hashers import HASHERS

    for name in HASHERS:
        assert (ROOT / "docs" / "hashers" / f"{name}.md").is_file()


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
