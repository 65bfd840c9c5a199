"""Take the pictures of the console for the documentation. Run: python docs/screenshots.py. It needs Chromium."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from onlinehash import HROH, Collection
from onlinehash.client import Client

IMAGES = Path(__file__).with_name("images")
WIDE, PHONE = (1240, 860), (390, 780)
MOST_BYTES = 150_000
N_ITEMS, N_FEATURES = 6000, 48

THINGS = (
    "backpack", "belt", "blanket", "blender", "boots", "bowl", "bracelet", "camera", "candle", "chair", "charger",
    "clock", "coat", "compass", "curtain", "desk", "drill", "earphones", "fan", "gloves", "guitar", "hammer", "hat",
    "jacket", "kettle", "keyboard", "ladder", "lamp", "mattress", "microscope",
)  # fmt: skip
KINDS = ("for children", "for travel", "in leather", "in steel", "second hand")
WORDS = ("light", "sturdy", "handmade", "foldable", "quiet", "waterproof", "small", "classic", "warm", "recycled")


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Run a service until the end of the block; yield its address."""
    command = [sys.executable, "-m", "onlinehash.cli", "serve", *arguments, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"https?://\S+", process.stderr.readline())
        if found is None:
            raise RuntimeError(f"The service did not start: {process.stderr.read()}")
        try:
            yield found[0]
        finally:
            process.terminate()


def created(path: str) -> str:
    """Create an empty collection that learns fast."""
    with Collection.open(path, HROH(32, n_components=256, random_state=0)):
        return path


def fill(url: str) -> None:
    """Store a made-up catalogue: 150 labels, titles of a sentence."""
    rng = np.random.default_rng(0)
    labels = [f"{thing} {kind}" for thing in THINGS for kind in KINDS]
    things, kinds = rng.normal(size=(len(THINGS), N_FEATURES)), rng.normal(size=(len(KINDS), N_FEATURES))
    centres = np.repeat(things, len(KINDS), axis=0) + 0.8 * np.tile(kinds, (len(THINGS), 1))
    with Client(url, timeout=120) as client:
        for start in range(0, N_ITEMS, 250):
            y = rng.integers(0, len(labels), 250)
            X = centres[y] + 1.1 * rng.normal(size=(250, N_FEATURES))
            words = [rng.choice(WORDS, 2, replace=False) for _ in y]
            payload = [
                {
                    "title": f"{one.capitalize()} and {other} {labels[label]}, article {id}",
                    "price": round(float(rng.uniform(5, 300)), 2),
                    "in_stock": bool(rng.random() < 0.8),
                }
                for id, (label, (one, other)) in enumerate(zip(y, words, strict=True), start)
            ]
            wrong = rng.random(250) < 0.01  # for Review
            given = [
                labels[rng.integers(len(labels))] if is_wrong else labels[i]
                for i, is_wrong in zip(y, wrong, strict=True)
            ]
            client.upsert([f"A-{id:05}" for id in range(start, start + 250)], X, given, payload)
        client.refresh(wait=True)


@contextmanager
def opened(browser: Browser, url: str, route: str, size: tuple[int, int], dark: bool = False) -> Iterator[Page]:
    """Open a route of the console in a window of its own."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        device_scale_factor=1,
    )
    page = context.new_page()
    page.goto(f"{url}/{route}")
    page.wait_for_selector("body[data-ready]", state="attached", timeout=300_000)
    page.wait_for_load_state("networkidle", timeout=300_000)
    yield page
    context.close()


def settled(page: Page) -> Page:
    """Wait until all pictures of a view are there."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    return page


def save(name: str, *shots: bytes) -> None:
    """Save pictures, side by side, with a palette, as a small PNG."""
    pictures = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    gap = 20
    width = sum(picture.width for picture in pictures) + gap * (len(pictures) - 1)
    whole = Image.new("RGB", (width, max(picture.height for picture in pictures)), "white")
    left = 0
    for picture in pictures:
        whole.paste(picture, (left, 0))
        left += picture.width + gap
    file = io.BytesIO()
    whole.quantize(palette=palette_of(whole), dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    if len(file.getvalue()) > MOST_BYTES:
        raise RuntimeError(f"{name} has {len(file.getvalue())} bytes, more than {MOST_BYTES}.")
    (IMAGES / f"{name}.png").write_bytes(file.getvalue())


def palette_of(picture: Image.Image) -> Image.Image:
    """Return the most frequent colours as they are, and others so that rare colours stay what they are."""
    colours, counts = np.unique(np.asarray(picture).reshape(-1, 3), axis=0, return_counts=True)
    exact = colours[np.argsort(-counts)[:96]]
    others = picture.quantize(96, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*exact.ravel().tolist(), *others[: 96 * 3]])
    return palette


def main() -> None:
    """Take all pictures."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with (
        TemporaryDirectory() as folder,
        served("--demo") as digits,
        served(created(f"{folder}/catalogue.oh")) as catalogue,
        sync_playwright() as playwright,
    ):
        fill(catalogue)
        browser = playwright.chromium.launch(executable_path=program)
        take_digits(browser, digits)
        take_catalogue(browser, catalogue)
        browser.close()


def take_digits(browser: Browser, url: str) -> None:
    """Take the picture of a search among handwritten digits."""
    with Client(url) as client:
        labels = {item.id: item.labels for item in client.items()}
        ids = list(labels)[300:500]
        found = client.search_by_id(ids, k=10)
    # An item whose neighbours have its label and differ in their bits.
    fits = [all(labels[near] == labels[id] for near in row.ids) for id, row in zip(ids, found, strict=True)]
    spread = [sum(row.distances) if fit else 0 for fit, row in zip(fits, found, strict=True)]
    with opened(browser, url, f"#/search?id={ids[int(np.argmax(spread))]}&as=bits", WIDE) as page:
        save("console-search", settled(page).screenshot())


def take_catalogue(browser: Browser, url: str) -> None:
    """Take the pictures of the catalogue."""
    label = quote(json.dumps("lamp in steel"))
    with opened(browser, url, f"#/items?label={label}", WIDE) as page:
        save("console-browse", settled(page).screenshot())
    with opened(browser, url, "#/items/A-00042", WIDE) as page:
        save("console-item", settled(page).screenshot())
    with opened(browser, url, "#/review", WIDE) as page:
        page.wait_for_selector(".side.suggested li", timeout=300_000)
        save("console-review", settled(page).screenshot())
    with opened(browser, url, "#/decide?text=A-00042", WIDE) as page:
        page.wait_for_selector(".near li")
        save("console-decide", settled(page).screenshot())
    with opened(browser, url, "#/insight", (WIDE[0], 1100)) as page:
        page.get_by_text("a random sample of").wait_for(timeout=300_000)
        save("console-insight", settled(page).screenshot())
    shots = []
    for route, dark in (("#/search", False), ("#/review", True)):
        with opened(browser, url, route, PHONE, dark) as page:
            shots.append(settled(page).screenshot())
    save("console-phone", *shots)


if __name__ == "__main__":
    main()
