"""Reports in all formats: the same tables."""

import csv
import re
import sys
from pathlib import Path

import pytest

from onlinehash.exceptions import FileFormatError, MissingExtraError
from onlinehash.experiments import parse_plan
from onlinehash.experiments.export import FORMATS, check_report, write_report
from onlinehash.experiments.report import Chapter


def chapter():
    config = {"hasher": "hcoh", "dataset": "mnist", "protocol": "published", "order": "shuffled", "params": {}}
    results = [
        {
            "config": config | {"method": "HCOH_&_co" if seed > 1 else "HCOH", "n_bits": n_bits, "seed": seed},
            "metrics": {
                "mean_average_precision": 0.7 + seed / 100,
                "precision": 0.8,
                "map_at": None,
                "precision_at": 9,
            },
            "curve": None,
            "seconds": {"learning": 0.5, "encoding": 0.1, "evaluation": 0.1},
            "environment": {"python": "3.11"},
            "epoch": 1,
        }
        for seed in (0, 1, 2)
        for n_bits in (8, 32)
    ]
    plan = parse_plan(
        "p", {"title": "50 % & more", "dataset": "mnist", "bits": [8], "seeds": [0], "methods": {"HCOH": {}}}
    )
    return Chapter(plan, results, "onlinehash reproduce p.toml")


@pytest.fixture
def written(tmp_path):
    for suffix in FORMATS:
        write_report(tmp_path / f"report{suffix}", [chapter()])
    return tmp_path


def test_a_csv_has_all_digits_the_spread_and_the_printed_value(written):
    with (written / "report.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "mean_average_precision"]
    assert [(row["method"], row["bits"], row["seeds"]) for row in rows] == [
        ("HCOH", "8", "2"), ("HCOH", "32", "2"), ("HCOH_&_co", "8", "1"), ("HCOH_&_co", "32", "1"),
    ]  # fmt: skip
    assert float(rows[1]["mean"]) == pytest.approx(0.705)
    assert float(rows[1]["deviation"]) == pytest.approx(0.0070710678)
    assert (rows[1]["printed"], rows[2]["deviation"], rows[3]["printed"]) == ("0.756", "", "")


def test_latex_escapes_what_it_would_read_as_commands(written):
    text = (written / "report.tex").read_text()
    assert r"HCOH & .705 $\pm$ .007 (.536) & .705 $\pm$ .007 (.756) \\" in text
    assert r"HCOH\_\&\_co & .720 & .720 \\" in text
    body = re.sub(r"(?m)^%.*", "", text)
    assert not re.search(r"(?<!\\)[_#]", body)
    assert body.count(r"\begin{table}") == body.count(r"\end{table}") == 2


def test_a_pdf_has_a_page_per_table_and_figure_and_is_the_same_every_time(written, tmp_path):
    content = (written / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page ") == 3  # mAP, precision, and the figure of mAP
    write_report(tmp_path / "again.pdf", [chapter()])
    assert (tmp_path / "again.pdf").read_bytes() == content


def test_a_web_page_is_written_too(written):
    assert (written / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_another_extension_is_refused_before_anything_is_run(tmp_path, monkeypatch):
    from onlinehash.cli import main  # noqa: F401
    from onlinehash.cli._files import check_output

    with pytest.raises(FileFormatError, match=r"use one of .html, .pdf, .tex, .csv"):
        check_output(tmp_path / "report.docx", *FORMATS)


def test_tables_need_no_library_for_figures_and_others_name_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for suffix in (".csv", ".tex"):
        check_report(Path(f"report{suffix}"))
        write_report(tmp_path / f"report{suffix}", [chapter()])
    for suffix in (".html", ".pdf"):
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[research\]"):
            check_report(Path(f"report{suffix}"))
