"""The page, in a real browser."""

import math
import os
import re
import shutil
import signal

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright
from tests.service.running import X, Y, make, running

from onlinehash import HCOH, Collection
from onlinehash.demo.stream import picture

pytestmark = pytest.mark.slow

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 375, "height": 812}
KEY = "a-key-for-the-page-to-write"
SHIFTS = """window.shifted = 0; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        reason = "There is no Chromium here; on Debian, run: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo():
    with running("--demo", "--dataset", "digits") as server:
        yield server


@pytest.fixture
def visit(browser):
    """Open the page of a server; at the end, nothing may stand in the console."""
    opened, said = [], []

    def visit(server, *, viewport=DESKTOP, **settings):
        context = browser.new_context(viewport=viewport, **settings)
        opened.append(context)
        context.add_init_script(SHIFTS)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if is_elsewhere(request.url, server) else None)
        page.goto(server.url)
        return page

    visit.said = said
    yield visit
    for context in opened:
        context.close()
    assert not said


def is_elsewhere(address, server):
    return not address.startswith((server.url, "data:"))


@pytest.fixture
def page(visit, demo):
    httpx.post(f"{demo.url}/api/v1/demo/reset").raise_for_status()
    page = visit(demo)
    ready(page)
    expect(page.locator("#hits li")).to_have_count(8)
    return page


def ready(page):
    expect(page.locator("body[data-ready]")).to_be_attached(timeout=30_000)


def draw_zero(page):
    box = page.locator("#sketch").bounding_box()
    turns = [2 * math.pi * i / 24 for i in range(25)]
    places = [
        (box["x"] + box["width"] * (0.5 + 0.2 * math.sin(t)), box["y"] + box["height"] * (0.5 - 0.33 * math.cos(t)))
        for t in turns
    ]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place)
    page.mouse.up()


def number(page, selector):
    return int(page.inner_text(selector).replace("\u202f", ""))


def test_an_item_that_is_picked_shows_its_neighbours_and_their_bits(page):
    tile = page.locator("#grid [role=option]").nth(5)
    name = tile.get_attribute("aria-label")
    tile.click()
    expect(tile).to_have_attribute("aria-selected", "true")
    expect(page.locator("#found")).to_contain_text(f"have the label of the query, {name[-1]}.")
    assert page.locator("#query .bit").count() == 32
    page.select_option("#label", str((int(name[-1]) + 1) % 3))
    expect(page.locator("#found")).to_contain_text("0 of 8")
    distances = []
    for row in page.locator("#hits li, #stranger li").all():
        assert row.locator("img").count() == 1
        distances.append(int(row.locator(".distance").inner_text()))
        assert row.locator("circle.other").count() == distances[-1]
    assert max(distances) > 0


def test_a_digit_that_is_drawn_finds_its_like(page):
    draw_zero(page)
    expect(page.locator("#found")).to_have_text("8 of 8 neighbours of your drawing have the label 0.")
    page.click("#clear")
    page.locator("#grid [role=option]").first.click()
    expect(page.locator("#found")).to_contain_text("of the query")


def test_options_change_what_is_found(page):
    page.select_option("#label", "1")
    page.select_option("#k", "4")
    expect(page.locator("#hits li")).to_have_count(4)
    assert page.locator("#hits .label").all_inner_texts() == ["1"] * 4
    page.select_option("#compare", "asymmetric")
    expect(page.locator("#hits .distance").first).to_contain_text(".")


def test_the_stream_raises_the_curve_and_brings_classes_and_versions(page):
    expect(page.locator("#versions li")).to_have_count(1)
    page.select_option("#speed", "30")
    page.click("#run")
    expect(page.locator("#n-classes")).to_have_text(re.compile("^([789]|10)$"), timeout=60_000)
    page.click("#run")
    expect(page.locator("#run")).to_have_text("Go on")
    assert page.locator("#versions li").count() >= 3
    expect(page.locator("#classes li")).to_have_count(10)
    assert page.locator("#classes li:not(.to-come)").count() >= 7
    words = page.locator("#map-chart svg").get_attribute("aria-label").rstrip(".").split()
    assert float(words[3]) > float(words[-1]) + 0.2
    assert page.locator("#map-chart path.used").get_attribute("d").count("H") > 5
    page.click("#reset")
    expect(page.locator("#n-items")).to_have_text("60")
    expect(page.locator("#run")).to_be_enabled()


def test_a_refresh_takes_the_staleness_away(page):
    expect(page.locator("#stale-says")).to_contain_text("10 items learned since")
    page.click("#refresh")
    expect(page.locator("#stale-says")).to_have_text("The codes include all 60 items learned.")
    expect(page.locator("#versions li")).to_have_count(2)
    assert page.locator("#stale-meter").get_attribute("aria-valuenow") == "0"


def test_the_race_shows_who_forgets(page):
    page.select_option("#race-speed", "6")
    page.click("#race-run")
    expect(page.locator("#race-run")).to_have_text("Race again", timeout=60_000)
    expect(page.locator("#race-says")).to_contain_text("HCOH has forgotten most of the digit")
    reached = [float(text.split()[1]) for text in page.locator("#race .maps .tick:has-text('mAP')").all_text_contents()]
    assert reached[0] > reached[1] + 0.2


def test_the_keyboard_is_enough(page):
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#others")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    before = page.inner_html("#query")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    chosen = page.locator("#grid [role=option]").nth(2)
    expect(chosen).to_be_focused()
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(page.locator("#query")).not_to_have_js_property("innerHTML", before)
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "run":
            break
    expect(page.locator("#run")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#run")).to_have_text("Pause")
    page.keyboard.press("Space")
    expect(page.locator("#run")).to_have_text("Go on")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_fits_and_nothing_moves(visit, demo, viewport, scheme):
    page = visit(demo, viewport=viewport, color_scheme=scheme, reduced_motion="reduce", has_touch=viewport is PHONE)
    ready(page)
    expect(page.locator("#hits li")).to_have_count(8)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert page.evaluate("window.shifted") < 0.1
    if viewport is PHONE:
        page.locator("#sketch").tap()
        expect(page.locator("#found")).to_contain_text("of your drawing")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) > 380) == (scheme == "light")
    page.click("#run")
    expect(page.locator("#run")).to_have_text("Pause")
    page.click("#run")
    moving = "[...document.querySelectorAll('*')].filter((e) => getComputedStyle(e).animationName !== 'none').length"
    assert page.evaluate(moving) == 0


def test_every_control_has_a_name(page):
    for control in page.locator("button, select, input, canvas, [role=img], [role=option], [role=meter]").all():
        if control.is_visible():
            snapshot = control.aria_snapshot()
            assert '"' in snapshot, snapshot


def test_a_plain_collection_shows_what_it_has(visit, tmp_path):
    path = tmp_path / "photos.oh"
    payload = [{"image": picture(X[0, :6].reshape(2, 3))}, {"title": "<b>Trail runner</b>"}, None]
    with Collection.open(path, HCOH(n_bits=12, random_state=0)) as collection:
        collection.upsert([f"p/{i}" for i in range(30)], X[:30], Y[:30], payload * 10)
    with running(path) as server:
        page = visit(server)
        ready(page)
        assert not page.locator("#race, #stream-controls, #rise, #draw").filter(visible=True).count()
        expect(page.locator("#grid [role=option]")).to_have_count(30)
        assert page.locator("#grid img").count() == 10
        expect(page.locator("#grid").get_by_text("<b>Trail runner</b>")).to_have_count(10)
        page.fill("#id", "p/2")
        page.keyboard.press("Enter")
        expect(page.locator("#query")).to_contain_text("p/2")
        assert page.locator("#query .bit").count() == 12
        assert number(page, "#n-items") == 30
        page.close()


def test_a_key_is_asked_for_and_kept_nowhere(visit, tmp_path):
    with running(make(tmp_path / "items.oh", 50), env={"ONLINEHASH_WRITE_KEY": KEY}) as server:
        page = visit(server)
        page.fill("#api-key", "not-the-key-that-was-made")
        page.keyboard.press("Enter")
        expect(page.locator("#key-says")).to_contain_text("does not accept this key")
        page.fill("#api-key", KEY)
        page.keyboard.press("Enter")
        ready(page)
        expect(page.locator("#hits li")).to_have_count(8)
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert KEY not in kept
        assert all("401" in text for text in visit.said)
        page.close()
        visit.said.clear()


def test_a_server_that_has_gone_is_told_in_words(visit, tmp_path):
    with running(make(tmp_path / "items.oh", 50)) as server:
        page = visit(server)
        ready(page)
        server.stop(signal.SIGKILL)
        page.click("#others")
        expect(page.locator("#problem")).to_contain_text("The server does not answer.")
        page.close()
        visit.said.clear()
