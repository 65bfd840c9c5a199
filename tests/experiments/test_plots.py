import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from onlinehash.experiments import plots, tables
from onlinehash.experiments.plan import Run
from onlinehash.experiments.run import run
from onlinehash.hashers import HASHERS

SVG = "{http://www.w3.org/2000/svg}"


def result(method, n_bits, value, *, hasher="hcoh", **params):
    return {
        "config": {
            "method": method,
            "hasher": hasher,
            "dataset": "digits",
            "n_bits": n_bits,
            "seed": 0,
            "params": params,
        },
        "metrics": {"mean_average_precision": value, "precision": value},
        "curve": {"instances": [1, 500, 1000], "values": [0.1, value / 2, value], "auc": value / 2, "mean": value / 2},
        "seconds": {"learning": value},
    }


METHODS = ("HCOH", "OSH", "OSH (as released)", "A method of your own")
RESULTS = [
    result(method, n_bits, 0.2 * place + n_bits / 1000)
    for place, method in enumerate(METHODS, start=1)
    for n_bits in (8, 32)
]
STUDY = [result(f"HCOH, learning_rate={rate}", 16, 0.5 + rate, learning_rate=rate) for rate in (0.01, 0.1, 0.3)]
FIGURES = {
    "bits": lambda: plots.map_against_bits(RESULTS).svg(),
    "auc": lambda: plots.auc_against_bits(RESULTS).svg(),
    "instances": lambda: plots.map_against_instances(RESULTS).svg(),
    "study": lambda: plots.map_against_parameter(tables.study(STUDY, "mean_average_precision")).svg(),
}


def words(svg):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_a_figure_is_one_svg_element_that_needs_nothing_else(draw):
    svg = draw()
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title").text
    assert not re.search(r"url\((?!#)|href=\"(?!#)|<script|@import", svg)
    assert not re.search(r"<style>[^<]*(^|})\*", svg)  # no rule that reaches the page around it


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_the_same_results_make_the_same_text(draw):
    assert draw() == draw()


@pytest.mark.parametrize("figure", ["bits", "auc", "instances"])
def test_every_method_is_named(figure):
    assert set(METHODS) <= set(words(FIGURES[figure]()))


def test_text_takes_the_colour_of_what_is_around_it_and_nothing_covers_the_background():
    svg = FIGURES["bits"]()
    assert "currentColor" in svg
    assert plots._INK not in svg
    assert "#ffffff" not in svg.lower()


def test_every_hasher_has_a_colour_of_its_own():
    assert {name.replace("-", "") for name in plots._LOOKS} == {hasher.__name__ for hasher in HASHERS.values()}
    assert len({colour for colour, _ in plots._LOOKS.values()}) == len(plots._LOOKS)


def test_no_two_methods_look_the_same_and_a_variant_keeps_its_colour():
    looks = [plots._look(method) for method in [*plots._LOOKS, "OSH (as released)", "OSH (hinge)"]]
    told_apart = {(str(look["linestyle"]), look["marker"], look["markerfacecolor"] == "none") for look in looks}
    assert len(told_apart) == len(looks)
    assert plots._look("OSH")["color"] == plots._look("OSH (hinge)")["color"]
    plain = [
        look["linewidth"] for look in looks if look["color"] not in {plots._LOOKS[m][0] for m in plots._EMPHASISED}
    ]
    assert all(plots._look(method)["linewidth"] > max(plain) for method in plots._EMPHASISED)


def test_references_are_level_lines():
    reference = result("Float features, cosine", 2048, 0.7, hasher="reference:float")
    assert "Float features, cosine" in words(plots.map_against_bits([*RESULTS, reference]).svg())
    assert "2048" not in words(plots.map_against_bits([*RESULTS, reference]).svg())


def test_panels_are_one_per_length():
    assert {"8 bits", "32 bits"} <= set(words(FIGURES["instances"]()))


def test_items_that_were_searched_among_a_single_one_do_not_count():
    asked = Run("LSH", "lsh", "digits", "online", n_bits=8, seed=0, checkpoints=4, queries="stream")
    made = {"config": asked.config(), **run(asked)}
    trivial, *values = made["curve"]["values"]
    assert trivial == 1.0
    assert max(values) < 0.5
    assert tables.curves([made])["LSH"][8] == (made["curve"]["instances"][1:], values)
    assert tables.areas([made])["LSH"][8] == pytest.approx(sum(values) / len(values))


def test_drawing_leaves_matplotlib_as_it_was():
    before = mpl.rcParams.copy()
    FIGURES["bits"]()
    assert mpl.rcParams.copy() == before
