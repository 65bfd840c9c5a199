import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.experiments import load_plan, parse_plan
from onlinehash.experiments.report import QUICK_PLAN, Chapter, render
from onlinehash.experiments.tables import groups, printed_for, row_name, study
from onlinehash.hashers import HASHERS

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """All cells of all tables, what is loaded from elsewhere, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.loaded, self.text, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            self.tables.append({"caption": "", "rows": []})
        elif tag == "tr":
            self.tables[-1]["rows"].append([])
        elif tag in ("th", "td"):
            self.tables[-1]["rows"][-1].append("")
        if tag != "a":
            self.loaded += [attributes[key] for key in ("src", "href", "xlink:href") if key in attributes]
        if tag not in ("meta", "use", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text.append(data)
        if "caption" in self.open:
            self.tables[-1]["caption"] += data
        elif "table" in self.open and self.tables[-1]["rows"]:
            self.tables[-1]["rows"][-1][-1] += data

    def table(self, caption):
        return next(table for table in self.tables if table["caption"].startswith(caption))


def made(method, n_bits, value, dataset="mnist", seed=0, **config):
    return {
        "config": {"method": method, "hasher": "hcoh", "dataset": dataset, "protocol": "published", "n_bits": n_bits,
                   "seed": seed, "order": "shuffled", "params": {}} | config,
        "metrics": {"mean_average_precision": value, "precision": value, "map_at": None},
        "curve": None,
        "seconds": {"learning": 0.5, "encoding": 0.1, "evaluation": 0.1},
        "environment": {"python": "3.11", "commit": "abc"},
        "epoch": 1,
    }  # fmt: skip


def page_of(results, dataset="mnist", title="A plan"):
    plan = parse_plan("p", {"title": title, "dataset": dataset, "bits": [8], "seeds": [0], "methods": {"HCOH": {}}})
    return render([Chapter(plan, results, "onlinehash reproduce p.toml")])


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick")
    done = CliRunner().invoke(app, ["reproduce", "--quick", "--results", str(folder), "--workers", "1"])
    assert done.exit_code == 0, done.output
    return folder


def test_a_quick_reproduction_shows_every_method(quick):
    text = (quick / "report.html").read_text()
    rows = {row[0] for row in Page(text).table("mAP")["rows"]}
    assert {run.method for run in load_plan(QUICK_PLAN).runs} <= rows
    assert {run.hasher for run in load_plan(QUICK_PLAN).runs} == set(HASHERS)
    assert "onlinehash reproduce --quick" in text


def test_numbers_in_the_report_are_those_of_the_results(quick):
    page = Page((quick / "report.html").read_text())
    _, *runs = map(json.loads, (quick / "quick.jsonl").read_text().splitlines())
    for caption, of in (
        ("mAP", lambda run: run["metrics"]["mean_average_precision"]),
        ("precision@100", lambda run: run["metrics"]["precision"]),
        ("CPU seconds", lambda run: run["seconds"]["learning"]),
    ):
        shown = {row[0]: row[1:] for row in page.table(caption)["rows"][1:]}
        for run in runs:
            cell = shown[run["config"]["method"]][{8: 0, 32: 1}[run["config"]["n_bits"]]]
            assert float(cell) == pytest.approx(of(run), abs=5e-4, rel=5e-3)


def test_the_report_opens_without_a_network(quick):
    text = (quick / "report.html").read_text()
    assert all(link.startswith("#") for link in Page(text).loaded)
    assert not re.search(r"@import|url\((?!#)|<link|<iframe|<img|fetch\(|XMLHttpRequest", text)
    figures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(figures) == 3  # bits, area, curves
    for figure in figures:
        ElementTree.fromstring(figure)
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_the_report_says_what_made_the_results(quick):
    environment = json.loads((quick / "quick.jsonl").read_text().splitlines()[0])
    assert environment.pop("environment") == 0
    text = " ".join(Page((quick / "report.html").read_text()).text)
    assert all(value in text for value in environment.values())


def test_a_second_quick_reproduction_runs_nothing_again(quick):
    before = (quick / "quick.jsonl").stat()
    done = CliRunner().invoke(app, ["reproduce", "--quick", "--results", str(quick)])
    assert done.exit_code == 0
    assert (quick / "quick.jsonl").stat().st_mtime_ns == before.st_mtime_ns


def test_a_report_of_complete_results_is_made_from_them_alone(quick, tmp_path):
    out = tmp_path / "page.html"
    command = ["reproduce", str(QUICK_PLAN), "--results", str(quick), "--report", str(out)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "HCOH" in out.read_text()


def test_quick_and_plans_do_not_go_together():
    assert CliRunner().invoke(app, ["reproduce"]).exit_code == 2
    assert CliRunner().invoke(app, ["reproduce", "p.toml", "--quick"]).exit_code == 2


def test_names_are_text_and_never_markup():
    text = page_of([made("<script>alert(1)</script>", n, 0.5) for n in (8, 16)], title="<img src=x> & more")
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;img src=x&gt; &amp; more" in text


def test_printed_values_stand_beside_the_released_variant_and_differences_are_explained():
    text = page_of([made("OSH", 8, 0.5), made("OSH (as released)", 8, 0.13), made("MIHash", 8, 0.9)])
    table = Page(text).table("mAP")
    assert "In brackets: printed in the paper." in table["caption"]
    assert dict(table["rows"][1:]) == {"OSH": ".500", "OSH (as released)": ".130 (.130)", "MIHash": ".900 (.664)"}
    assert "<dt>MIHash</dt><dd>The gradient is the released one" in text


@pytest.mark.parametrize(
    "dataset, label", [("cifar10", "printed for VGG-16 features"), ("miniplaces", "printed for Places205")]
)
def test_data_that_stands_in_is_named(dataset, label):
    text = page_of([made("HCOH", 32, 0.9, dataset)], dataset)
    table = Page(text).table("mAP")
    assert label in table["caption"]
    printed = printed_for(dataset, "mean_average_precision").cells["HCOH"][32]
    assert table["rows"][1][1] == f".900 ({printed:.3f})".replace("(0", "(")
    assert "Why rows differ" not in text


def test_streams_that_the_paper_does_not_have_are_not_compared_and_stand_apart():
    results = [made("HCOH", 8, 0.5), made("HCOH, order=sorted", 8, 0.4, order="sorted")]
    assert list(groups(results)) == ["mnist", "mnist, order sorted"]
    page = Page(page_of(results))
    overview = page.table("mAP at 8 bits")
    assert overview["rows"][1] == ["HCOH", ".500", ".400"]
    shown = [table["rows"][1][1] for table in page.tables if table["caption"].startswith("mAP")]
    assert shown[1:] == [".500 (.536)", ".400"]


def test_references_alone_are_shown_at_their_own_size():
    results = [
        made("Signs", 64, 0.5, dataset, hasher="reference:sign", **more)
        for dataset, more in (("digits", {}), ("digits", {"order": "sorted"}))
    ]
    page = Page(page_of(results))
    assert page.tables[0]["rows"] == [["method", "64 bits"], ["Signs", ".500"]]
    assert not any(table["caption"].startswith(("CPU", "mAP at")) for table in page.tables)


def test_a_grid_of_one_number_is_a_study():
    rates = (0.1, 0.2, 0.4)
    results = [made(f"HCOH, learning_rate={r}", 16, r, params={"learning_rate": r, "codebook": "x"}) for r in rates]
    assert study(results, "precision").lines == {"HCOH": {r: r for r in rates}}
    assert "mAP against learning rate" in page_of(results)
    assert study([made("HCOH", 8, 0.5), made("LSH", 8, 0.5, params={"a": 1})], "precision") is None
    assert row_name("Float features, cosine") == "Float features, cosine"


def test_values_are_means_over_seeds():
    text = page_of([made("LSH", 8, 0.25, seed=0), made("LSH", 8, 0.75, seed=1)])
    assert Page(text).table("mAP")["rows"][1][1] == ".500 ± .354"
    assert "means of 2 seeds" in text
