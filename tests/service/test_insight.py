"""The view Insight, the explained words, and the accessibility of all views, in a real browser."""

import re
from pathlib import Path

import axe_playwright_python
import numpy as np
import pytest
from playwright.sync_api import expect
from tests.service.running import new_context, running

from onlinehash import HROH, Collection
from onlinehash.service import serve_in_thread
from onlinehash.service.app import STATIC

pytestmark = pytest.mark.slow

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
MARKUP = "<i>half & half</i>"
RNG = np.random.default_rng(0)
LABELS = [MARKUP, *(f"intent number {i}" for i in range(149))]
CENTRES = RNG.normal(size=(150, 16))
Y = RNG.permutation(np.arange(600) % 150)
X = (CENTRES[Y] + 0.2 * RNG.normal(size=(600, 16))).astype(np.float32)


@pytest.fixture(scope="module")
def demo():
    with running("--demo") as server:
        yield server.url


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """A collection of 150 labels, of which half is learned after the codes were made; its address."""
    path = tmp_path_factory.mktemp("insight") / "sentences.oh"
    with (
        Collection.open(path, HROH(n_bits=32, n_components=64, random_state=0), "manual") as collection,
        serve_in_thread(collection) as url,
    ):
        collection.measure_quality()
        for start in range(0, 600, 200):
            rows = range(start, start + 200)
            payload = [{"title": f"A sentence about {LABELS[Y[row]]}, number {row}"} for row in rows]
            collection.upsert([f"s/{row}" for row in rows], X[rows], [LABELS[Y[row]] for row in rows], payload)
        yield url


@pytest.fixture
def visit(browser):
    """Open a route of the page; at the end, nothing may stand in the browser's console."""
    opened, said = [], []

    def visit(url, route, **settings):
        context = new_context(browser, **{"viewport": DESKTOP, "reduced_motion": "reduce"} | settings)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{url}/#/{route}")
        expect(page.locator("body[data-ready]")).to_be_attached()
        return page

    yield visit
    for context in opened:
        context.close()
    assert not said


def section(page, title):
    return page.get_by_role("region", name=title, exact=True)


def test_every_word_that_the_page_marks_is_explained():
    text = {file.name: file.read_text() for file in STATIC.glob("*.js")}
    known = set(re.findall(r'^  "([^"]+)": "[A-Z]', text["elements.js"], re.MULTILINE))
    used = {word.lower() for file in text.values() for word in re.findall(r'explain\("([^"]+)"', file)}
    assert used and used <= known


def test_labels_are_found_among_150_and_lead_to_their_items(visit, sentences):
    page = visit(sentences, "insight")
    labels = section(page, "Labels")
    expect(labels.get_by_role("status")).to_contain_text("150 labels.")
    expect(labels.get_by_role("listitem")).to_have_count(60)
    labels.get_by_role("button", name="Show all 150").click()
    expect(labels.get_by_role("listitem")).to_have_count(150)
    labels.get_by_role("searchbox").fill("HALF &")
    expect(labels.get_by_role("listitem")).to_have_count(1)
    expect(labels.get_by_role("listitem")).to_contain_text("4 · 0.7 %")
    labels.get_by_role("link", name=MARKUP).click()
    page.wait_for_url(lambda url: "#/items?label=%22%3Ci%3Ehalf" in url)


def test_quality_and_encoders_are_shown(visit, sentences):
    page = visit(sentences, "insight")
    quality = section(page, "Quality over time")
    expect(quality).to_contain_text("New labelled items are queries before they are learned from")
    expect(quality.get_by_role("status")).to_contain_text(
        re.compile(r"items learned: precision \d\.\d\d, mAP \d\.\d\d")
    )
    quality.get_by_text("As a table").click()
    assert quality.get_by_role("row").count() >= 2
    assert section(page, "History of the encoder").get_by_role("row").count() >= 2
    found = section(page, "Do items find themselves?")
    expect(found.get_by_role("status")).to_contain_text("500 items, drawn at random, were searched for")
    expect(found.locator("dd")).to_contain_text(["100 %", "100 %"])
    facts = section(page, "The collection")
    expect(facts.locator("dd")).to_contain_text(["600", "600", "600", "HROH", "32", "16"])


def test_a_refresh_takes_the_staleness_away(visit, sentences):
    page = visit(sentences, "insight")
    facts = section(page, "The collection")
    expect(facts.get_by_role("status")).to_contain_text(re.compile("items were learned since|Up to date"))
    facts.get_by_role("button", name="Refresh the codes").click()
    expect(facts.get_by_role("status")).to_have_text("Up to date: the codes include all 600 items learned.")
    assert facts.get_by_role("meter").get_attribute("aria-valuenow") == "0"


def test_the_map_names_and_opens_items_by_pointer_and_by_keyboard(visit, sentences):
    page = visit(sentences, "insight")
    items = section(page, "Map of items")
    expect(items.get_by_text("600 items.")).to_be_visible()
    names, canvas = items.locator("#map-names"), items.get_by_role("application")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(names).to_contain_text("Item s/")
    before = names.inner_text()
    page.keyboard.press("ArrowDown")
    expect(names).not_to_have_text(before)
    items.get_by_role("searchbox").fill("half")
    items.get_by_role("button", name=MARKUP).click()
    expect(items.get_by_role("button", name=MARKUP)).to_have_attribute("aria-pressed", "true")
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    expect(names).to_contain_text(f"label {MARKUP}")
    before = canvas.screenshot()
    items.get_by_role("button", name="Zoom in").click()
    assert canvas.screenshot() != before
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(names).to_contain_text(f"label {MARKUP}")
    named = names.inner_text().split(",")[0].removeprefix("Item ")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/#/items/{named.replace('/', '%2F')}")


def test_an_empty_collection_fills_while_one_watches(visit, tmp_path):
    with (
        Collection.open(tmp_path / "new.oh", HROH(n_bits=16, n_components=32, random_state=0)) as collection,
        serve_in_thread(collection) as url,
    ):
        page = visit(url, "insight")
        expect(section(page, "Labels")).to_contain_text("There are no items yet.")
        expect(section(page, "Map of items")).to_contain_text("There is nothing to show yet")
        assert not section(page, "Map of items").get_by_role("application").is_visible()
        collection.upsert(range(20), X[:20], [7] * 20)
        expect(section(page, "Labels")).to_contain_text("1 label.")
        expect(section(page, "Map of items")).to_contain_text("20 items.")
        page.close()


def test_words_are_explained_by_focus_hover_and_tap(visit, sentences):
    page = visit(sentences, "insight", has_touch=True)
    word = section(page, "The collection").get_by_role("button", name="staleness")
    tip = page.locator("#word-staleness")
    assert word.get_attribute("aria-describedby") == "word-staleness"
    word.focus()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    word.blur()
    word.hover()
    expect(tip).to_contain_text("items were learned from since the codes were made")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    word.tap()
    expect(tip).to_be_visible()


def test_axe_finds_nothing_in_any_view_and_everything_fits(visit, demo):
    page = visit(demo, "search")
    page.evaluate(AXE)
    found = {}
    for route in ("search", "items", "items/3", "review", "review?pile=unknown", "decide?text=3", "insight"):
        page.set_viewport_size(PHONE)
        page.emulate_media(color_scheme="light")
        page.evaluate(f"location.hash = '#/{route}'")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(200)
        if route.startswith("decide"):  # its curve comes later
            expect(page.locator(".curve path")).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], route
        found[route, "light"] = axe(page, rules={"target-size": {"enabled": True}})
        page.set_viewport_size(DESKTOP)
        page.emulate_media(color_scheme="dark")
        found[route, "dark"] = axe(page, runOnly=["color-contrast"])
    assert not {at: rules for at, rules in found.items() if rules}


def axe(page, **options):
    """Return the elements that violate a rule of axe-core, by rule."""
    options["resultTypes"] = ["violations"]
    violations = page.evaluate("async (options) => (await axe.run(document, options)).violations", options)
    return {one["id"]: [node["html"][:120] for node in one["nodes"]] for one in violations}
