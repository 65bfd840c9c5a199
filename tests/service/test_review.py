"""The views Review and Decide in a real browser: labels are mended and given by keyboard, and rows are decided."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect
from tests.servers import wait_until
from tests.service.running import new_context

from onlinehash import HROH, Collection, load_dataset
from onlinehash.demo.digits import data_url
from onlinehash.service import serve_in_thread

pytestmark = pytest.mark.slow

N_ITEMS, N_FLIPPED = 1200, 100


@pytest.fixture(scope="module")
def digits():
    X, y = load_dataset("digits").split().stream
    return X.astype(np.float32), [f"digit {label}" for label in y.tolist()]


@pytest.fixture
def page(browser):
    """A page; at the end, nothing may stand in the browser's console."""
    context, said = new_context(browser, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"), []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert not said


def flipped(y, rows, n):
    """Return labels of which n are wrong, and which these are."""
    rng, names = np.random.default_rng(0), sorted(set(y))
    wrong = rng.choice(rows, n, replace=False).tolist()
    labels = list(y[:rows])
    for row in wrong:
        labels[row] = str(rng.choice([name for name in names if name != y[row]]))
    return labels, wrong


def item_of(page, but=""):
    """Return the id of the item on the card, once another than ``but`` is shown."""
    card = page.locator(".review-card")
    expect(card).not_to_have_attribute("data-id", re.compile(f"^({but})?$"))
    return int(card.get_attribute("data-id"))


def test_a_hundred_wrong_labels_are_mended_by_keyboard(page, digits, path):
    X, y = digits
    labels, wrong = flipped(y, N_ITEMS, N_FLIPPED)
    with (
        Collection.open(path, HROH(64, n_components=256, random_state=0)) as collection,
        serve_in_thread(collection) as url,
    ):
        payload = [{"image": data_url(row.reshape(8, 8))} for row in X[:N_ITEMS]]
        collection.upsert(range(N_ITEMS), X[:N_ITEMS], labels, payload)
        collection.refresh()
        page.goto(f"{url}/#/review")
        card = page.locator(".review-card")
        expect(card).to_be_focused()
        expect(card.locator(".side.has li")).to_have_count(3)
        expect(card.locator(".side.suggested li img")).to_have_count(3)
        before, seen, changed = collection.risk_coverage().error[-1], list[int](), list[int]()
        while card.is_visible() and len(seen) < 140:
            seen.append(item := item_of(page, seen[-1] if seen else ""))
            has, suggested = (card.locator(f".side.{side} .chip-label").inner_text() for side in ("has", "suggested"))
            assert has == labels[item]
            if has == y[item]:
                page.keyboard.press("k")
                continue
            changed.append(item)
            if suggested == y[item]:
                page.keyboard.press("a")
            else:
                page.keyboard.press("/")
                page.keyboard.type(y[item][-3:])
                page.keyboard.press("Enter")
        expect(page.get_by_text("decided", exact=False).first).to_be_visible()
        wait_until(lambda: all(collection[item].labels == y[item] for item in changed))
        mended = [row for row in wrong if collection[row].labels == y[row]]
        assert len(mended) >= 90
        assert sum(collection[row].labels != y[row] for row in range(N_ITEMS)) == N_FLIPPED - len(mended)
        collection.refresh()
        assert collection.risk_coverage().error[-1] < before - 0.05
        effect = page.locator(".effect")
        expect(effect).to_contain_text("would get their label")
        expect(effect.locator("s")).to_have_count(3)  # what was, beside what is
        kept = collection.checkpoint("console/kept")
        assert kept and all(json.loads(label) == y[int(id)] for id, label in kept.items())
        page.close()  # before the server ends


def test_a_decision_is_undone_and_a_kept_label_does_not_come_again(page, digits, path):
    X, y = digits
    labels, _ = flipped(y, 300, 12)
    with (
        Collection.open(path, HROH(64, n_components=256, random_state=0), "manual") as collection,
        serve_in_thread(collection) as url,
    ):
        collection.upsert(range(300), X[:300], labels)
        page.goto(f"{url}/#/review")
        card = page.locator(".review-card")
        expect(card).to_be_focused()
        expect(card).to_have_attribute("data-id", str(collection.suspects(1)[0].id))
        first = item_of(page)
        page.keyboard.press("a")
        item_of(page, first)
        wait_until(lambda: collection[first].labels != labels[first])
        page.keyboard.press("u")
        expect(card).to_have_attribute("data-id", str(first))
        wait_until(lambda: collection[first].labels == labels[first])
        page.keyboard.press("s")
        kept = item_of(page, first)
        page.keyboard.press("k")
        item_of(page, kept)
        page.keyboard.press("/")
        page.keyboard.type("a label of my own")
        expect(page.get_by_role("option", name="new label")).to_be_visible()
        page.keyboard.press("Escape")
        expect(card).to_be_focused()
        wait_until(lambda: str(kept) in (collection.checkpoint("console/kept") or {}))
        page.reload()
        expect(card).to_have_attribute("data-id", str(first))  # it was skipped only
        page.keyboard.press("s")
        assert item_of(page, first) != kept
        page.close()  # before the server ends


def test_items_of_a_new_class_are_named_once(page, digits, path):
    X, y = digits
    labels = [None if label == "digit 0" or row % 10 == 0 else label for row, label in enumerate(y[:900])]
    with (
        Collection.open(path, HROH(64, n_components=256, random_state=0)) as collection,
        serve_in_thread(collection) as url,
    ):
        collection.upsert(range(900), X[:900], labels, [{"image": data_url(row.reshape(8, 8))} for row in X[:900]])
        collection.refresh()
        page.goto(f"{url}/#/review?pile=unknown")
        card = page.locator(".review-card")
        expect(card.locator(".member")).to_have_count(12)
        out = item_of(page)
        page.keyboard.press("1")  # leaves the first one out
        expect(card.locator(".member").first).to_have_attribute("aria-pressed", "false")
        page.keyboard.press("/")
        page.keyboard.type("nought")
        page.keyboard.press("Enter")
        expect(page.get_by_text("1 decided")).to_be_visible()
        wait_until(lambda: collection.count(labels="nought") > 30)  # all of them in one request
        named = [item.id for item in collection.items(labels="nought")]
        assert len(named) > 30 and out not in named
        assert np.mean([y[row] == "digit 0" for row in named]) > 0.9
        page.get_by_role("link", name="Uncertain").click()
        expect(page.get_by_text("Items without a label whose most probable")).to_be_visible()
        expect(card.locator(".side.suggested li")).to_have_count(3)
        row = item_of(page)
        suggested = card.locator(".side.suggested .chip-label").inner_text()
        page.keyboard.press("Enter")
        expect(page.get_by_text("2 decided")).to_be_visible()
        wait_until(lambda: collection[row].labels == suggested)
        page.close()  # before the server ends


def test_rows_are_decided_with_the_error_of_the_slider(page, digits, path, tmp_path):
    X, y = digits
    labels, _ = flipped(y, 1000, 30)
    with (
        Collection.open(path, HROH(64, n_components=256, random_state=0)) as collection,
        serve_in_thread(collection) as url,
    ):
        collection.upsert(range(1000), X[:1000], labels)
        collection.refresh()
        page.goto(f"{url}/#/decide?error=0.1")
        says = page.get_by_text("of new items get a label")
        expect(says).to_contain_text("At most 10 % wrong: 100 %")
        page.locator("#decide-text").fill(" ".join(map(str, X[1100].tolist())))
        page.keyboard.press("Enter")
        answer = page.get_by_role("region", name="Decisions", exact=True)
        expect(answer).to_contain_text(f"It is {y[1100]}")
        expect(answer.locator(".near li")).to_have_count(3)
        with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["name", *(f"v{i}" for i in range(64))])
            table.writerows([f'row "{row}", new', *X[row].tolist()] for row in range(1000, 1250))
        page.set_input_files("#decide-file", tmp_path / "rows.csv")
        expect(answer).to_contain_text("of 250 rows get a label")
        with page.expect_download() as download:
            answer.get_by_role("button", name="Save as CSV").click()
        with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        decided = collection.classify(X[1000:1250], max_error=0.1)
        assert [row["label"] or None for row in rows] == [one.label for one in decided]
        assert rows[0]["name"] == 'row "1000", new'
        page.get_by_label("Wrong labels at most").press("Home")
        expect(says).to_contain_text("At most 0.1 % wrong: 0 %")
        expect(answer).to_contain_text("0 of 250 rows get a label")
        assert "error=0.001" in page.url
        page.locator("#decide-text").fill("7")
        page.keyboard.press("Enter")
        expect(answer).to_contain_text("item 7")
        near = answer.locator(".near a")
        expect(near).to_have_count(3)
        assert not any(link.get_attribute("href").endswith("/7") for link in near.all())  # not itself
        page.close()  # before the server ends
