"""The Python of the documentation runs as printed, and generated pages are fresh."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block, capsys):
    exec(compile(block, "documentation", "exec"), {})
    assert capsys.readouterr().out


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path, make", generator().PAGES.items(), ids=lambda value: getattr(value, "name", ""))
def test_generated_pages_are_fresh(path, make):
    assert path.read_text() == make(), "run: make docs"


def test_every_hasher_has_a_page():
    from onlinehash.hashers import HASHERS

    for name in HASHERS:
        assert (ROOT / "docs" / "hashers" / f"{name}.md").is_file()


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
