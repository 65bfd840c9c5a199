"""The page, in a real browser: the shell, Search, Browse and the page of an item."""

import csv
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from tests.servers import free_port
from tests.service.running import X, Y, make, new_context, running

from onlinehash import HCOH, HROH, Collection
from onlinehash.demo.digits import data_url
from onlinehash.embedders import Embedder
from onlinehash.service import ApiKeys, serve_in_thread

pytestmark = pytest.mark.slow

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
KEY = "a-key-for-the-page-to-write"
SHIFTS = """window.shifted = 0; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""
ODD = [
    "<b>bold</b>",
    "a/b",
    "../up",
    "..",
    "get",
    'quo"te',
    "it's",
    "fox 🦊",
    "per%20cent",
    "q?x=1#y",
    "new\nline",
    "x" * 100,
]
LARGE = [(1 << 53) + 1, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63), *range(8)]
EXACT = [
    "9007199254740993",
    '{"a":[-12345678901234567890,5],"b 9007199254740993":"\\\\\\"9007199254740993"}',
    "[0.12345678901234568]",
]
ELSEWHERE = "https://pictures.example"
TEXTS = {
    "fruit": ["ripe apples and pears", "a basket of plums", "sweet cherries"],
    "tool": ["a hammer and nails", "an old saw"],
}
LONG = "A sentence that is long enough to be shown in full, with <i>markup</i> that stays text, and more. " * 3


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A service of several collections."""
    folder = tmp_path_factory.mktemp("shelf")
    rng = np.random.default_rng(0)
    with ExitStack() as stack:

        def collection(name, hasher, **settings):
            return stack.enter_context(Collection.open(folder / f"{name}.oh", hasher, **settings))

        kinds = {
            name: collection(name, HCOH(12, random_state=0)) for name in ("photos", "odd", "large", "many", "empty")
        }
        kinds["texts"] = collection("texts", HROH(16, n_components=64, random_state=0), embed="char_ngrams")
        shown = [
            {"image": data_url(row.reshape(2, 3)), "price": i, "seen": {"at": [i]}} for i, row in enumerate(X[:30])
        ]
        shown[1]["title"], shown[2]["text"] = "<b>Trail runner</b>", LONG
        kinds["photos"].upsert(range(30), X[:30], Y[:30], shown)
        labels = ["<i>one</i>" if y % 2 else "a/b, c" for y in range(len(ODD))]
        kinds["odd"].upsert(ODD, X[: len(ODD)], labels, [{"photo": f"{ELSEWHERE}/{i}"} for i in range(len(ODD))])
        labels = [(1 << 60) + i % 2 for i in range(len(LARGE))]
        kinds["large"].upsert(LARGE, X[: len(LARGE)], labels, [{"serial": (1 << 70) + i} for i in range(len(LARGE))])
        kinds["many"].upsert(rng.permutation(730), X[np.arange(730) % 200], Y[np.arange(730) % 200])
        pairs = [(text, label) for label, texts in TEXTS.items() for text in texts] * 3
        documents = [text for text, _ in pairs]
        kinds["texts"].upsert(range(len(pairs)), None, [label for _, label in pairs], documents=documents)
        url = stack.enter_context(serve_in_thread(kinds))
        yield SimpleNamespace(url=url, **kinds)


@pytest.fixture
def visit(browser):
    """Open the page of a server; at the end, nothing may stand in the console."""
    opened, said = [], []

    def visit(server, route="", *, viewport=DESKTOP, **settings):
        context = new_context(browser, viewport=viewport, **settings)
        opened.append(context)
        context.add_init_script(SHIFTS)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if is_elsewhere(request.url, server) else None)
        page.goto(f"{server.url}/{route}")
        expect(page.locator("body[data-ready], dialog[open]").first).to_be_attached()
        return page

    visit.said = said
    yield visit
    for context in opened:
        context.close()
    assert not said


def is_elsewhere(address, server):
    return not address.startswith((server.url, "data:", "blob:"))


def hits(page):
    return page.locator(".results .hits").first.locator("li")


def rows(page):
    return page.locator(".scroll-table tbody:not([aria-hidden]) tr")


def ids(page):
    return rows(page).locator("th").all_inner_texts()


def number(page, selector):
    return int(page.inner_text(selector).replace("\u202f", ""))


def test_an_example_shows_its_neighbours_and_on_demand_their_bits(visit, shelf):
    page = visit(shelf, "#/in/photos/search")
    expect(hits(page)).to_have_count(10)  # of the first example
    assert page.locator(".examples img").count() == page.locator(".examples [role=option]").count() == 20
    tile = page.locator(".examples [role=option]").nth(5)
    tile.click()
    expect(tile).to_have_attribute("aria-selected", "true")
    label = tile.get_attribute("aria-label").split()[-1]
    expect(page.locator(".results .sentence")).to_contain_text(f"have the label of the query, {label}.")
    assert page.locator(".bit:visible").count() == 0
    page.get_by_label("Show as").select_option("rows with bits")
    expect(page.locator(".query svg .bit")).to_have_count(12)
    distances = []
    for row in page.locator(".hits li").all():
        assert row.locator("img").count() == 1
        distances.append(int(row.locator(".distance b").inner_text()))
        assert row.locator("circle.other").count() == distances[-1]
    assert sorted(distances) == distances
    other = str((int(label) + 1) % 4)
    filter_by(page, "Label", other)
    filter_by(page, "Filter", "price >= 3 and price < 40")
    page.get_by_label("Neighbours", exact=True).select_option("5")
    page.get_by_label("Compare").select_option("asymmetric")
    expect(page.locator(".results .sentence")).to_contain_text("0 of ")
    expect(page.locator(".distance b").last).to_contain_text(".")
    assert set(page.locator(".hits .chip-label").all_inner_texts()) == {other}
    page.get_by_label("Show as").select_option("tiles")
    expect(page.locator(".hit-tile").first).to_be_visible()
    n_tiles, address = page.locator(".hit-tile").count(), page.url
    page.reload()  # the address has it all
    expect(page.locator(".hit-tile")).to_have_count(n_tiles)
    assert page.url == address and "label=" in address
    expect(page.locator(".chip")).to_have_count(2)
    page.get_by_role("button", name=f"Remove the filter label {other}").click()
    expect(page.locator(".chip")).to_have_count(1)
    expect(page.locator(".results .sentence")).not_to_contain_text("0 of ")
    page.get_by_label("Filter", exact=True).fill("price")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_contain_text("is no condition")
    page.click("#dismiss")
    expect(page.locator("#problem")).to_be_hidden()


def filter_by(page, name, value):
    page.get_by_label(name, exact=True).fill(value)
    page.keyboard.press("Enter")
    expect(page.locator(".chip", has_text=value)).to_be_visible()


def test_what_the_learned_ranking_changed_is_visible_and_saved(visit, shelf):
    page = visit(shelf, "#/in/texts/search?text=plums+and+pears&k=5")
    expect(hits(page)).to_have_count(5)
    expect(page.locator(".decided")).to_contain_text(re.compile("Classified (as fruit|left to a person)"))
    found = [row.locator(".found").inner_text() for row in hits(page).all()]
    assert set(found) <= {"found by class", "found by vector"}
    vectors = shelf.texts.search(["plums and pears"], 5, rescore="cosine").ids[0]
    shown = [int(row.locator("a.clamp").get_attribute("href").split("/")[-1]) for row in hits(page).all()]
    assert found == ["found by vector" if id in vectors else "found by class" for id in shown]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
        rows_saved = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows_saved] == shown
    assert [f"found by {row['found_by']}" for row in rows_saved] == found
    assert rows_saved[0]["document"] == shelf.texts[shown[0]].payload["document"]


def test_queries_are_ids_vectors_files_and_texts(visit, shelf, tmp_path):
    page = visit(shelf, "#/in/photos/search")
    box, said = page.locator("#query-text"), page.locator(".query b")
    box.fill("7")
    page.keyboard.press("Enter")
    expect(said).to_have_text("item 7")
    page.get_by_label("Compare").select_option("l2")  # items of one class share one code
    box.fill(str(X[9].tolist()))
    page.keyboard.press("Enter")
    expect(said).to_have_text("your vector")
    expect(page.locator(".hits a.clamp").first).to_have_attribute("href", "#/in/photos/items/9")
    expect(page.locator("#by")).to_have_value("vector")
    box.fill("1, 2")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_contain_text("This vector has 2 numbers, those of this collection have 6.")
    np.save(tmp_path / "rows.npy", np.asfortranarray(X[[3, 9, 5]], np.float16))
    page.set_input_files("#query-file", tmp_path / "rows.npy")
    expect(page.locator("#rows-say")).to_have_text("of 3 in rows.npy")
    page.get_by_label("Row", exact=True).fill("2")
    page.keyboard.press("Enter")
    expect(said).to_have_text("row 2 of rows.npy")
    expect(page.locator(".hits a.clamp").first).to_have_attribute("href", "#/in/photos/items/9")
    (tmp_path / "no.npy").write_bytes(b"no array at all")
    page.set_input_files("#query-file", tmp_path / "no.npy")
    expect(page.locator("#problem")).to_contain_text("is no .npy file")
    page.goto(f"{shelf.url}/#/in/texts/search")
    box.fill("cherries, plums & pears")
    page.keyboard.press("Enter")
    expect(page.locator(".results .sentence")).to_contain_text("have the label fruit.")
    assert "text=" in page.url


def test_browsing_passes_every_item_once_and_holds_few(visit, shelf):
    page = visit(shelf, "#/in/many/items")
    expect(page.locator(".browse .sentence")).to_have_text("730 items.")
    table, seen = page.locator(".scroll-table"), {}
    for last in (200, 300, 400, 500, 600, 700, 730):
        expect(rows(page).last).to_have_attribute("aria-rowindex", str(last + 1))
        seen |= dict.fromkeys(ids(page))
        assert rows(page).count() <= 500
        table.evaluate("(table) => table.scrollTop += 3800")
    assert list(seen) == [str(i) for i in range(730)]
    table.evaluate("(table) => table.scrollTop = 0")
    expect(rows(page).first).to_have_attribute("aria-rowindex", "2")
    page.get_by_label("Go to id").fill("500")
    page.keyboard.press("Enter")
    expect(rows(page).first.locator("th")).to_have_text("500")
    filter_by(page, "Label", "2")
    page.get_by_label("Order").select_option("arrival-")
    of_two = [item.id for item in shelf.many.items(labels=2, order="arrival", descending=True)]
    expect(page.locator(".browse .sentence")).to_have_text(f"{len(of_two)} items of 730.")
    expect(rows(page).first.locator("th")).to_have_text(str(of_two[0]))
    assert ids(page)[:100] == [str(id) for id in of_two[:100]]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
        assert [int(row["id"]) for row in csv.DictReader(file)] == of_two


def test_a_listing_that_was_left_while_it_was_read_is_not_read_on(visit, shelf):
    page, held = visit(shelf, "#/in/many/items"), []
    expect(page.locator(".browse .sentence")).to_have_text("730 items.")

    def hold(route):
        asked = route.request.post_data_json
        if "labels" in asked and asked["order"] == "id" and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/items/list", hold)
    filter_by(page, "Label", "2")
    page.get_by_label("Order").select_option("arrival-")
    of_two = [str(item.id) for item in shelf.many.items(labels=2, order="arrival", descending=True)]
    expect(rows(page).first.locator("th")).to_have_text(of_two[0])
    with page.expect_response("**/items/list"):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done, 500))")  # in which a page would be asked for
    assert ids(page)[:100] == of_two[:100]


def test_an_item_is_shown_in_full_and_changed(visit, shelf):
    page = visit(shelf, "#/in/photos/items")
    expect(page.locator("thead th")).to_have_text(["id", "label", "image", "title", "text", "price", "seen"])
    page.get_by_label("Filter", exact=True).fill("price = 2")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    rows(page).first.locator("th a").click()
    expect(page.locator("h2").first).to_have_text(f"{LONG[:160]}…")
    expect(page.locator(".full")).to_have_text(LONG)
    expect(page.locator(".item pre").first).to_contain_text('"seen": {\n    "at": [\n      2')
    assert page.locator(".item-picture img").count() == 1 and page.locator(".item i").count() == 0
    expect(page.locator(".item .hits").first.locator("li")).to_have_count(8)
    assert page.get_by_role("button", name="Delete and unlearn").count() == 0  # HCOH cannot
    page.get_by_label("Labels, one per line").fill("3\n1")
    page.get_by_role("button", name="Save labels").click()
    expect(page.locator(".item .facts-line").first.locator("a")).to_have_text(["3", "1"])
    assert shelf.photos[2].labels == (3, 1)
    for answer in ("Keep it", "Delete"):
        page.get_by_role("button", name="Delete", exact=True).first.click()
        page.get_by_role("dialog").get_by_role("button", name=answer).click()
        assert (2 in shelf.photos) or answer == "Delete"
    expect(page.get_by_text("This item was deleted.")).to_be_visible()
    assert 2 not in shelf.photos
    expect(page.locator("#n-items")).to_have_text("29")
    page.goto(f"{shelf.url}/#/in/texts/items/0")
    page.get_by_role("button", name="Delete and unlearn").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This item was deleted.")).to_be_visible()


def test_odd_ids_stay_text_and_pictures_of_other_sites_wait_for_a_click(visit, shelf):
    page = visit(shelf, "#/in/odd/items")
    expect(rows(page)).to_have_count(len(ODD))
    icon, asked = page.request.get(f"{shelf.url}/icon.svg").body(), []

    def answer(route):
        asked.append(route.request.headers)
        route.fulfill(body=icon, content_type="image/svg+xml")

    page.route(f"{ELSEWHERE}/**", answer)
    assert not visit.said
    page.get_by_role("button", name="Load pictures from pictures.example").first.click()
    expect(page.locator("td img")).to_have_count(len(ODD))
    for image in page.locator("td img").all():
        expect(image).not_to_have_js_property("naturalWidth", 0)
    assert len(asked) == len(ODD) and not any("referer" in headers for headers in asked)
    links = rows(page).locator("th a").evaluate_all("(links) => links.map((link) => [link.textContent, link.hash])")
    assert sorted(id for id, _ in links) == sorted(ODD)
    for id, address in links:
        page.evaluate("(address) => { location.hash = address; }", address)
        expect(page.locator("#item-title")).to_have_text(f"item {id}")
    page.locator(".back a").click()
    page.locator(".chip-label").filter(has_text="<i>one</i>").first.click()
    expect(rows(page)).to_have_count(len(ODD) // 2)
    assert page.locator("b:has-text('bold'), i").count() == 0
    assert all(url.startswith(ELSEWHERE) for url in visit.said)
    visit.said.clear()


def test_integers_beyond_the_numbers_of_browsers_are_exact(visit, shelf):
    page = visit(shelf, "#/in/large/items")
    for text in EXACT:
        assert (
            page.evaluate("(text) => import('./api.js').then(({ parse, write }) => write(parse(text)))", text) == text
        )
    expect(rows(page)).to_have_count(len(LARGE))
    assert ids(page) == [str(id) for id in sorted(LARGE)]
    filter_by(page, "Label", str((1 << 60) + 1))
    expect(rows(page)).to_have_count(len(LARGE) // 2)
    page.goto(f"{shelf.url}/#/in/large/search?id={(1 << 62) + 1}")
    expect(page.locator(".query b")).to_have_text(f"item {(1 << 62) + 1}")
    expect(page.locator(".results .sentence")).to_contain_text(f"the query, {(1 << 60) + 1}.")
    page.goto(f"{shelf.url}/#/in/large/items/{(1 << 63) - 1}")
    expect(page.locator(".item pre").first).to_have_text(f'{{\n  "serial": {(1 << 70) + 2}\n}}')
    page.get_by_label("Labels, one per line").fill(str((1 << 60) + 1))
    page.get_by_role("button", name="Save labels").click()
    expect(page.locator(".changes [role=status]")).to_contain_text("Labelled")
    assert shelf.large[(1 << 63) - 1].labels == (1 << 60) + 1


def test_an_empty_collection_fills_while_one_watches_in_two_tabs_behind_a_proxy(visit, shelf):
    page = visit(shelf)
    expect(page.locator(".choices a")).to_have_count(6)

    def forward(route):
        route.fulfill(response=route.fetch(url=route.request.url.replace("/shop/", "/")))

    page.context.route(f"{shelf.url}/shop/**", forward)
    page.context.route(f"{shelf.url}/api/**", lambda route: route.abort())  # all goes below the path of the proxy
    page.goto(f"{shelf.url}/shop/")
    page.locator(".choices a", has_text="empty").click()
    expect(page.get_by_text("This collection is empty.")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{shelf.url}/shop/#/in/empty/items")
    expect(other.get_by_text("This collection is empty.")).to_be_visible()
    shelf.empty.upsert([f"p{i}" for i in range(40)], X[:40], Y[:40])
    expect(hits(page)).to_have_count(10)
    expect(rows(other)).to_have_count(40)
    assert number(page, "#n-items") == 40
    assert page.url.endswith("/shop/#/in/empty/search")


def test_a_key_is_kept_nowhere_and_opens_files_of_pictures_and_a_search_by_image(visit, tmp_path):
    names = ["red", "blue", "lime", "white"]
    for name in names:
        Image.new("RGB", (4, 3), name).save(tmp_path / f"{name} #1.png")
    embed = Embedder("mean-colour", mean_colour, takes="image")
    with (
        Collection.open(tmp_path / "items.oh", HCOH(8, random_state=0), embed=embed) as collection,
        serve_in_thread(collection, keys=ApiKeys.of(write=[KEY]), media=tmp_path) as url,
    ):
        files = [tmp_path / f"{name} #1.png" for name in names]
        collection.upsert(
            names, documents=[*map(Image.open, files)], labels=names, payload=[{"file": file.name} for file in files]
        )
        page = visit(SimpleNamespace(url=url))
        page.keyboard.press("Escape")
        expect(page.locator("#problem")).to_contain_text("This server requires an API key.")
        page.get_by_role("button", name="Enter a key").click()
        page.fill("#api-key", "not-the-key-that-was-made")
        page.keyboard.press("Enter")
        expect(page.locator("#key-says")).to_contain_text("does not accept this key")
        page.fill("#api-key", KEY)
        page.keyboard.press("Enter")
        expect(hits(page)).to_have_count(3)
        expect(hits(page).locator("img")).to_have_count(3)
        page.set_input_files("#query-file", files[1])
        expect(page.locator(".query b")).to_have_text("blue #1.png")
        expect(hits(page)).to_have_count(4)
        page.get_by_label("Compare").select_option("l2")
        expect(page.locator(".hits a.clamp").first).to_have_text("item blue")
        expect(page.locator(".distance b").first).to_have_text("0.000")
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert KEY not in kept
        assert all("401" in text for text in visit.said)
        page.close()
        visit.said.clear()


def test_a_read_key_sees_what_it_may_do(visit, path):
    keys = ApiKeys.of(read=["a-key-that-only-reads"], write=[KEY])
    with (
        Collection.open(path, HROH(16, n_components=32, random_state=0)) as collection,
        serve_in_thread(collection, keys=keys) as url,
    ):
        collection.upsert(range(100), X[:100], Y[:100])
        for key, n_buttons in (("a-key-that-only-reads", 0), (KEY, 1)):
            page = visit(SimpleNamespace(url=url), "#/items/3")
            page.fill("#api-key", key)
            page.keyboard.press("Enter")
            expect(page.locator("#code-title")).to_be_visible()
            for name in ("Save labels", "Delete"):
                expect(page.get_by_role("button", name=name, exact=True)).to_have_count(n_buttons)
            page.close()  # else it asks a service that has ended
        visit.said.clear()  # without a key, the first answer is 401


def mean_colour(images):
    return [np.asarray(image.convert("RGB"), float).reshape(-1, 3).mean(axis=0) / 255 - 0.4 for image in images]


def test_the_page_goes_on_by_itself_after_a_restart(visit, tmp_path):
    path = make(tmp_path / "items.oh", 50)
    port = ("--port", free_port())
    with running(path, *port) as server:
        page = visit(server, "#/search?id=4")
        expect(hits(page)).to_have_count(10)
        server.stop(signal.SIGKILL)
        page.click("#others")
        expect(page.locator("#away")).to_contain_text("The server does not answer.")
        with running(path, *port, "--readonly"):
            expect(page.locator("#away")).to_be_hidden()
            expect(hits(page)).to_have_count(10)
            visit.said.clear()
            page.locator(".hits a.clamp").first.click()
            expect(page.locator("#code-title")).to_be_visible()
            expect(page.get_by_role("button", name="Delete")).to_have_count(0)  # it only reads now
            page.close()


def test_the_keyboard_is_enough(visit, shelf):
    page = visit(shelf, "#/in/photos/search")
    expect(hits(page)).to_have_count(10)
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.role") == "option":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    chosen = page.locator(".examples [role=option]").nth(2)
    expect(chosen).to_be_focused()
    before = page.inner_html(".query")
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(page.locator(".query")).not_to_have_js_property("innerHTML", before)
    for control in page.locator("button, select, input, textarea, [role=img], [role=option], [role=region]").all():
        if control.is_visible():
            snapshot = control.aria_snapshot()
            assert '"' in snapshot, snapshot


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_fits_and_nothing_moves(visit, shelf, viewport):
    page = visit(shelf, "#/in/photos/search", viewport=viewport, reduced_motion="reduce")
    expect(hits(page)).to_have_count(10)
    assert page.evaluate("window.shifted") < 0.1
    moving = "[...document.querySelectorAll('*')].filter((e) => getComputedStyle(e).animationName !== 'none').length"
    places = {"search?as=tiles": ".hit-tile", "items": ".browse tbody th", "items/1": ".item .strip"}
    for place, shown in places.items():
        page.evaluate("(hash) => { location.hash = hash; }", f"#/in/photos/{place}")
        expect(page.locator(shown).last).to_be_visible()
        assert page.evaluate(moving) == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 380) == (scheme == "light")
