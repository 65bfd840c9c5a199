"""The examples run, their claims hold, and the pages show what they print."""

import importlib.util
import re
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "examples"
GALLERY = (FOLDER / "README.md").read_text()
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
PAGES = FOLDER.parent / "docs" / "examples"


def load_renderer():
    spec = importlib.util.spec_from_file_location("_examples", FOLDER.parent / "docs" / "_examples.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = load_renderer()
NOTEBOOKS = render.EXAMPLES
PROGRAMS = sorted({*EXAMPLES} - {*NOTEBOOKS})
NUMBER = r"-?\d+(?:\.\d+)?"


def printed_by(name, *arguments):
    with redirect_stdout(StringIO()) as out:
        runpy.run_path(str(FOLDER / f"{name}.py"))["main"](arguments)
    return out.getvalue()


def numbers(text):
    return [float(number) for number in re.findall(NUMBER, text)]


def row(output, start):
    """Return the numbers of the line that starts so, after that start."""
    line = next(line for line in output.splitlines() if line.strip().startswith(start))
    return numbers(line.strip().removeprefix(start))


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return tmp_path_factory.mktemp("figures") / "sorted.png"


@pytest.fixture(scope="module")
def notebooks():
    return {name: render.run(name) for name in NOTEBOOKS}


@pytest.fixture(scope="module")
def outputs(figure, notebooks):
    given = {"sorted_stream": ["--out", str(figure)]}
    printed = {name: "".join(cell.output for cell in cells) for name, cells in notebooks.items()}
    return printed | {name: printed_by(name, *given.get(name, [])) for name in PROGRAMS}


# ---------------------------------------------------------------------- new classes


def days(output):
    return [numbers(line) for line in output.splitlines() if re.match(r" +\d ", line)]


def test_categories_are_found_the_day_they_appear(outputs):
    rows = days(outputs["new_classes"])
    assert [row[:2] for row in rows] == [[1, 2], [2, 4], [3, 6], [4, 8], [5, 10]]
    for *_, new, everything, _, exact in rows:
        assert new > exact and new > 0.9 and everything > 0.95


def test_codes_of_the_first_day_do_not_know_later_categories(outputs):
    for *_, frozen, _ in days(outputs["new_classes"])[1:]:
        assert frozen < 0.5


def test_the_collection_refreshes_by_itself(outputs):
    assert ".refresh(" not in (FOLDER / "new_classes.py").read_text()
    for day, _, n_items, generation, version, *_ in days(outputs["new_classes"]):
        assert generation == day and version == n_items


def test_a_retracted_category_is_unlearned_not_only_deleted(outputs):
    out = outputs["new_classes"]
    n_items, learned = row(out, "as learned")
    assert n_items > 100
    assert row(out, "deleted, with the previous codes") == [0, learned]
    for step in ("and unlearned: HROH subtracts", "or learned again without it"):
        n_left, apart = row(out, step)
        assert n_left == 0 and apart > learned + 8
    assert row(out, "codes that differ from those of a hasher that never saw it:")[0] == 0


# ---------------------------------------------------------------------- near-duplicates


def test_16_bits_and_rescoring_find_as_many_duplicates_as_exact_search(outputs):
    out = outputs["near_duplicates"]
    *exact, exact_bytes = row(out, "exact search")
    *rescored, n_bytes = row(out, "HROH, 16 bits, rescored")
    assert (n_bytes, exact_bytes) == (2, 768)
    for value, best in zip(rescored, exact, strict=True):
        assert value >= 0.95 * best


def test_16_bits_alone_do_for_learned_products_and_not_for_new_ones(outputs):
    out = outputs["near_duplicates"]
    (learned, new, _), (exact_learned, exact_new, _) = row(out, "HROH, 16 bits "), row(out, "exact search")
    assert learned > exact_learned
    assert new < 0.9 * exact_new
    ranked = row(out, "HROH, 16 bits, learned")
    assert ranked[0] > exact_learned and ranked[1] > new
    unlearned = row(out, "LSH, 16 bits ")
    assert learned > unlearned[0] and new > unlearned[1]


# ---------------------------------------------------------------------- sorted stream


def test_steps_forget_a_sorted_stream_and_sums_do_not(outputs, figure):
    (hcoh, sgd, hroh), shuffled = row(outputs["sorted_stream"], "10 "), row(outputs["sorted_stream"], "shuffled")
    assert abs(hroh - shuffled[2]) < 0.02
    assert hcoh < shuffled[0] - 0.1
    assert sgd < shuffled[1] - 0.4
    assert shuffled[2] > max(shuffled[:2])
    assert figure.read_bytes().startswith(b"\x89PNG")


# ---------------------------------------------------------------------- documents


def test_codes_learned_from_labels_find_more_tickets_than_exact_search(outputs):
    rows = [numbers(line) for line in outputs["support_tickets"].splitlines() if re.match(r" +\d ", line)]
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5] and rows[-1][3] > rows[-1][4] + 0.1
    assert outputs["support_tickets"].count("lost_card:") == 3
    assert "moved to char_ngrams:1024" in outputs["support_tickets"]


def test_photos_are_found_by_their_paths(outputs):
    assert row(outputs["photo_folder"], "HROH, 32 bits")[0] > 0.95


# ---------------------------------------------------------------------- decisions


def test_a_smaller_error_routes_fewer_tickets_and_fewer_wrong_ones(outputs):
    rows = [numbers(line) for line in outputs["intent_routing"].splitlines() if re.match(r" +0\.", line)]
    _, routed, wrong, left = zip(*rows, strict=True)
    assert all(sum(pair) == 160 for pair in zip(routed, left, strict=True))
    assert list(routed) == sorted(routed) and routed[2] > 120
    assert wrong[2] / routed[2] < 0.08 and wrong[-1] > wrong[2] + 4
    assert "will it rain tomorrow\n  left to a person" in outputs["intent_routing"]


def test_a_corrected_hit_does_not_come_back_in_other_words(outputs):
    before, after = outputs["semantic_cache"].strip().split("\n\n")
    assert "online: how to open an account" in before and row(before, "4 right,")[0] > 0
    assert "correction: how to close an account" in after and after.endswith("8 right, 0 wrong, 0 not cached")


def test_every_confirmed_pair_finds_more_photos_of_the_product(outputs):
    rows = [numbers(line) for line in outputs["confirmed_duplicates"].splitlines()[1:]]
    linked = [row[2] for row in rows]
    assert linked == sorted(linked) and linked[-1] > rows[-1][3] + 0.1


def test_suspects_are_the_wrong_labels(outputs):
    lines = [numbers(line) for line in outputs["noisy_labels"].splitlines()[2:]]
    (n_wrong, few, _), *_, (*_, n_left, given, right) = lines
    assert n_wrong > 150 and n_left < 5
    assert few < 50 < 190 < given and right >= 0.97 * given


# ---------------------------------------------------------------------- all


def shows(shown, real):
    """Compare lines; machines round differently, and a few bits flip."""
    shown, real = shown.strip().splitlines(), real.strip().splitlines()
    assert [re.sub(NUMBER, "#", line).split() for line in shown] == [re.sub(NUMBER, "#", line).split() for line in real]
    for line, real_line in zip(shown, real, strict=True):
        assert numbers(line) == pytest.approx(numbers(real_line), rel=0.02, abs=0.03)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gallery_shows_what_is_printed(name, outputs):
    shown = re.search(rf"python examples/{name}\.py\n(.*?)```", GALLERY, re.DOTALL)
    assert shown, f"examples/README.md does not show the output of {name}.py"
    shows(shown[1], outputs[name])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_page_of_a_notebook_shows_its_text_its_code_and_what_it_prints_and_draws(name, notebooks):
    pattern, page = r"```text\n(.*?)```", (PAGES / f"{name}.md").read_text()
    made = render.page(name, notebooks[name])
    assert re.sub(pattern, "", page, flags=re.DOTALL) == re.sub(pattern, "", made, flags=re.DOTALL), "run: make docs"
    for shown, real in zip(*(re.findall(pattern, text, re.DOTALL) for text in (page, made)), strict=True):
        shows(shown, real)
    drawn = [figure for cell in notebooks[name] for figure in cell.figures]
    files = sorted(PAGES.glob(f"{name}-*.svg"))
    assert [path.name for path in files] == re.findall(r"\]\((\S+\.svg)\)", page)
    assert len(drawn) == len(files) >= 1
    assert all(path.read_text().startswith("<?xml") and path.stat().st_size < 300_000 for path in files)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_short_and_uses_what_is_public(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) < (150 if name in NOTEBOOKS else 100)
    assert not re.search(r"\._[a-z]|import _", text)


def test_links_of_the_gallery_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", GALLERY):
        assert (FOLDER / target).exists(), target
