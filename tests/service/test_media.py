"""Images of a folder, and searches by an image."""

import io
import os
from base64 import b64encode

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.service.running import running

from onlinehash import HCOH, Collection
from onlinehash.client import Client
from onlinehash.embedders import Embedder
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import ApiKeys, Limits, create_app, media, serve_in_thread

pytestmark = pytest.mark.slow


def picture(colour, kind="PNG", size=(4, 3)):
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, kind)
    return content.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of images, and of what is none."""
    root = tmp_path_factory.mktemp("media")
    inside = root / "images"
    (inside / "cats and dogs").mkdir(parents=True)
    for name in ("a.png", "cats and dogs/größe #1.png", ".hidden.png", "..png"):
        (inside / name).write_bytes(picture("red"))
    for name, kind in (("b.JPG", "JPEG"), ("c.gif", "GIF"), ("d.webp", "WEBP"), ("e.avif", "AVIF")):
        (inside / name).write_bytes(picture("blue", kind))
    (inside / "really.jpeg").write_bytes(picture("red", "PNG"))
    (inside / "page.html").write_text("<script>")
    (inside / "page.png").write_text("<script>")
    (inside / "drawing.svg").write_text("<svg/>")
    (inside / "empty.png").write_bytes(b"")
    (inside / "folder.png").mkdir()
    (inside / "huge.png").write_bytes(picture("red") + bytes(5000))
    os.mkfifo(inside / "pipe.png")
    (root / "secret.png").write_bytes(picture("green"))
    (root / "others").mkdir()
    (root / "others" / "secret.png").write_bytes(picture("green"))
    (root / "images-2").mkdir()
    (root / "images-2" / "secret.png").write_bytes(picture("green"))
    (inside / "out.png").symlink_to(root / "secret.png")
    (inside / "out").symlink_to(root / "others")
    (inside / "within.png").symlink_to("a.png")
    (inside / "loop.png").symlink_to("loop.png")
    (inside / "gone.png").symlink_to("nothing.png")
    return inside


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "items.oh"
    with pytest.MonkeyPatch.context() as patched, Collection.open(path, HCOH(8)) as collection:
        patched.setattr(media, "MAX_FILE_BYTES", 4000)
        with serve_in_thread(collection, keys=ApiKeys.of(read=["k" * 20]), media=folder) as url:
            yield f"{url}/api/v1/media"


KEY = {"Authorization": f"Bearer {'k' * 20}"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("b.JPG", "image/jpeg"),
        ("c.gif", "image/gif"),
        ("d.webp", "image/webp"),
        ("e.avif", "image/avif"),
        ("really.jpeg", "image/png"),
        ("within.png", "image/png"),
        ("..png", "image/png"),
        ("cats%20and%20dogs/gr%C3%B6%C3%9Fe%20%231.png", "image/png"),
    ],
)
def test_images_below_the_folder_are_served(url, folder, name, kind):
    answer = httpx.get(f"{url}/{name}", headers=KEY)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.content == (folder / httpx.URL(f"http://x/{name}").path[1:]).read_bytes()
    assert answer.headers["x-content-type-options"] == "nosniff"
    head = httpx.head(f"{url}/{name}", headers=KEY)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e/secret.png",
        "..%2fsecret.png",
        "..%5csecret.png",
        "cats%20and%20dogs/%2e%2e/%2e%2e/secret.png",
        "cats%20and%20dogs/%2e%2e/a.png",
        "%2e%2e/images-2/secret.png",
        "%2e/a.png",
        "/a.png",
        "%2fetc/passwd",
        "a.png%00.png",
        "a.png%00",
        "out.png",
        "out/secret.png",
        "loop.png",
        "gone.png",
        "nothing.png",
        "page.html",
        "page.png",
        "drawing.svg",
        "empty.png",
        "folder.png",
        "pipe.png",
        "",
        "x" * 3000 + ".png",
    ],
)
def test_nothing_else_is_there(url, name):
    for ask in (httpx.get, httpx.head):
        answer = ask(f"{url}/{name}", headers=KEY)
        assert answer.status_code == 404, name
        assert b"PNG" not in answer.content[:20]


def test_large_files_wrong_keys_and_methods_are_refused(url):
    answer = httpx.get(f"{url}/huge.png", headers=KEY)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "bytes")
    assert httpx.get(f"{url}/a.png").status_code == 401
    assert httpx.head(f"{url}/a.png").status_code == 401
    answer = httpx.put(f"{url}/a.png", headers=KEY, content=b"x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_serve_takes_a_folder_of_media(tmp_path, folder):
    path = tmp_path / "items.oh"
    with Collection.open(path, HCOH(8)) as collection:
        with pytest.raises(InvalidInputError, match="not a folder"):
            create_app(collection, media=tmp_path / "nowhere")
        with serve_in_thread(collection) as url:
            answer = httpx.get(f"{url}/api/v1/media/a.png")
            assert (answer.status_code, "--media" in answer.json()["detail"]) == (404, True)
    with running(path, "--media", folder) as server:
        assert httpx.get(f"{server.url}/api/v1/stats").json()["media"] is True
        assert httpx.get(f"{server.url}/api/v1/media/a.png").content == picture("red")
        assert server.stop() == 0


# ---------------------------------------------------------------------- searching


def mean_colour(images):
    return [np.asarray(image.convert("RGB"), float).reshape(-1, 3).mean(axis=0) / 255 - 0.4 for image in images]


@pytest.fixture
def colours(path):
    embed = Embedder("mean-colour", mean_colour, takes="image")
    with Collection.open(path, HCOH(8, random_state=0), "manual", embed=embed) as collection:
        names = ["red", "blue", "lime", "white"]
        collection.upsert(names, documents=[Image.new("RGB", (2, 2), name) for name in names], labels=names)
        with serve_in_thread(collection, limits=Limits(max_body_bytes=100_000)) as url:
            yield f"{url}/api/v1"


def post(url, content, **options):
    return httpx.post(f"{url}/search", json={"images": [b64encode(content).decode()], **options})


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "AVIF"])
def test_an_image_is_searched_for(colours, kind):
    answer = post(colours, picture("blue", kind), k=1, rescore="l2", include=["labels"])
    assert answer.json()["ids"] == [["blue"]]
    assert answer.json()["labels"] == [["blue"]]
    assert httpx.get(f"{colours}/stats").json()["embeds"] == "image"


def test_a_client_searches_for_an_image(colours):
    with Client(colours.removesuffix("/api/v1")) as client:
        assert client.search(picture("lime", "JPEG"), 1, rescore="l2").ids == ["lime"]
        assert sorted(client.range_search(picture("lime"), 8).ids) == ["blue", "lime", "red", "white"]
        assert client.search(picture("lime"), labels="red").ids == ["red"]
        with pytest.raises(InvalidInputError, match="cannot be read as one"):
            client.search(b"no image")


def test_images_that_cannot_be_searched_for_are_refused(colours, monkeypatch):
    for content in (
        b"",
        b"GIF89a",
        b"no image",
        picture("red")[:-30],
        picture("red", "BMP"),
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
    ):
        answer = post(colours, content)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "images"), content
    assert httpx.post(f"{colours}/search", json={"images": ["?"]}).status_code == 422
    assert (
        httpx.post(f"{colours}/search", content=picture("red"), headers={"Content-Type": "image/png"}).status_code
        == 415
    )
    assert post(colours, picture("red"), k=0).status_code == 422
    assert post(colours, picture("red"), colour="red").status_code == 422
    assert post(colours, bytes(100_001)).status_code == 413
    monkeypatch.setattr(media, "MAX_PIXELS", 100)
    answer = post(colours, picture("red", size=(50, 50)))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "pixels")


def test_text_is_no_path_of_a_file_of_the_service(colours, tmp_path):
    image = tmp_path / "image.png"
    image.write_bytes(picture("red"))
    for answer in (
        httpx.post(f"{colours}/search", json={"documents": [str(image)]}),
        httpx.put(f"{colours}/items", json={"ids": ["new"], "documents": [str(image)]}),
        httpx.patch(f"{colours}/items", json={"ids": ["red"], "documents": [str(image)]}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "documents")


def test_a_collection_of_texts_refuses_images(path):
    with (
        Collection.open(path, HCOH(8), embed="char_ngrams:32") as collection,
        serve_in_thread(collection) as url,
    ):
        answer = post(f"{url}/api/v1", picture("red"))
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "images")
