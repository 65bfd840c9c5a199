from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onlinehash.datasets import dataset_names

SVG = "{http://www.w3.org/2000/svg}"


def test_data_sets_are_listed_with_their_sizes(folder, run):
    lines = run("datasets").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == list(dataset_names())
    assert lines[1].startswith("digits\t1797\t64\t10\tyes\t")


def test_data_sets_as_json_say_what_is_here(folder, run, monkeypatch):
    monkeypatch.setenv("ONLINEHASH_DATA", str(folder))
    infos = {info["name"]: info for info in json.loads(run("datasets --json").stdout)}
    assert infos["digits"]["available"] is True
    assert infos["mnist"]["available"] is False
    assert infos["mnist"]["n_classes"] == 10


@pytest.mark.slow
def test_the_demo_shows_a_rise_searches_and_a_picture_without_a_library_for_figures(folder, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("demo --quick --out pictures/here")
    text = result.stdout
    assert "1500 labelled instances arrive" in text
    assert "HROH, 0: 0 ✓" in text
    assert "HCOH, 0: 0 ✓" in text
    assert "✓" in text
    assert "█" in text
    assert "Picture, for a browser: pictures/here/demo.svg" in text
    assert [path.name for path in Path("pictures/here").iterdir()] == ["demo.svg"]
    drawn = ElementTree.parse("pictures/here/demo.svg").getroot()
    texts = [element.text for element in drawn.iter(f"{SVG}text")]
    assert "HROH on digits: mAP rises as instances arrive" in texts
    assert len(list(drawn.iter(f"{SVG}image"))) == 10 * (1 + 2 * 5)  # queries, and what two methods found
    assert max(map(len, text.splitlines())) < 110
    assert result.stderr == ""
    assert not {"\x1b", "\r"} & set(text)


@pytest.mark.slow
def test_everything_is_compiled_ahead():
    program = """
from importlib import import_module
from pathlib import Path
import onlinehash
from onlinehash.cli import app
onlinehash.HROH.__init__.__kwdefaults__["n_components"] = 64  # of 2048, which only takes time
app(["compile"], standalone_mode=False)
root = Path(onlinehash.__file__).parent
for path in root.rglob("*.py"):
    if "@kernel(" in path.read_text(encoding="utf-8"):
        module = import_module(".".join(["onlinehash", *path.relative_to(root).with_suffix("").parts]))
        for name, found in vars(module).items():
            if hasattr(found, "py_func") and not found.targetoptions["no_cpython_wrapper"] and not found.signatures:
                print(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""  # no kernel is left
    assert "Compiled." in done.stderr


def test_nothing_is_run_for_a_report_that_cannot_be_drawn(monkeypatch, folder, run):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "[research]" in run("reproduce --quick", 1).stderr
    assert not list(Path("quick-results").iterdir())
