"""Every number in the generated parts of pages comes from a stored result: other results, other numbers."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from onlinehash.experiments import results, tables

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SMALLER = 0.9  # what all results are multiplied by; it changes three decimals from .010 on
PRINTED = re.compile(r"\((\.\d{3})\)")
VALUE = re.compile(r"(?<![\d.])\.\d{3}\b")
TYPED = re.compile(r"(?<![\w.])\.\d{3,4}\b")
SOURCES = ("easured once", "table above", "](")


def pages():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = (
        "README.md",
        "docs/comparison.md",
        "docs/reproduction.md",
        "docs/guides/documents.md",
        "docs/guides/rank-by-what-was-learned.md",
        "docs/hashers/hroh.md",
        "docs/hashers/hcoh.md",
        "docs/hashers/index.md",
    )
    return {ROOT / name: module.PAGES[ROOT / name] for name in names}


def scaled(value):
    if isinstance(value, dict):
        kept = ("map_at", "precision_at", "instances")
        return {key: part if key in kept else scaled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [scaled(part) for part in value]
    return SMALLER * value if isinstance(value, float) else value


def generated(text):
    """Return the generated lines: those between marks or, on a page that is generated throughout, its tables."""
    parts = re.findall(r"(?s)<!-- (?!end)[^>]* -->\n(.*?)<!-- end -->", text) or re.findall(r"(?m)^\|.*", text)
    return "\n".join(parts).splitlines()


@pytest.mark.parametrize("page, make", pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_every_number_follows_from_results(page, make, monkeypatch):
    printed = {tables.form_value(value) for value in _floats(tables._paper())}
    before = generated(make())
    read, read_text = results._read, Path.read_text
    monkeypatch.setattr(
        results,
        "_read",
        lambda path: {
            key: result | {"metrics": scaled(result["metrics"]), "curve": scaled(result["curve"])}
            for key, result in read(path).items()
        },
    )

    def smaller_text(path, *args, **how):
        text = read_text(path, *args, **how)
        if path.parent != ROOT / "benchmarks" / "results":
            return text
        content = json.loads(text)
        rows = [row | {"ratio": SMALLER * row["ratio"]} for row in content["rows"]]
        return json.dumps(content | {"rows": rows})

    monkeypatch.setattr(Path, "read_text", smaller_text)
    after = generated(make())
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        numbers = [VALUE.findall(PRINTED.sub("", line)) for line in (old, new)]
        if len(numbers[0]) == len(numbers[1]):  # a verdict may name other values
            typed = [a for a, b in zip(*numbers, strict=True) if a == b and float(a) >= 0.01 and a not in printed]
            assert not typed, f"{typed} do not come from results: {old}"


def prose():
    """Yield the texts that are written by hand, without their generated parts and code.

    Decisions are measured once, as their README says, and the pages of examples are what these print.
    """
    generated_pages = ("docs/cli.md", "docs/http.md", "docs/hashers/index.md", "docs/reproduction.md")
    pages = [ROOT / "README.md", ROOT / "docs" / "_reproduction.txt", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        if name not in generated_pages and not name.startswith(("docs/decisions/", "docs/examples/")):
            text = re.sub(r"(?s)<!-- (?!end)[^>]* -->\n.*?<!-- end -->", "", page.read_text())
            yield pytest.param(re.sub(r"(?s)```.*?```", "", text), id=name)


@pytest.mark.parametrize("text", list(prose()))
def test_values_that_are_typed_say_where_they_come_from(text):
    unexplained = [
        line for line in text.splitlines() if TYPED.search(line) and not any(source in line for source in SOURCES)
    ]
    assert not unexplained, "generate them, or say that they were measured once"


def _floats(content):
    if isinstance(content, dict):
        return [value for part in content.values() for value in _floats(part)]
    if isinstance(content, list):
        return [value for part in content for value in _floats(part)]
    return [content] if isinstance(content, float) else []
