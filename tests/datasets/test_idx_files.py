"""The idx files of MNIST load from disk and from the web, and only the published ones."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from onlinehash.datasets import _entry, load_dataset
from onlinehash.datasets._origin import IdxFiles
from onlinehash.exceptions import DataNotFoundError, FileFormatError

Publish = Callable[..., None]


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Return an idx file, written from its specification."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


@dataclass
class IdxSet:
    """Four idx files of one small data set."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    contents: dict[str, bytes]

    @property
    def digests(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.contents.items()}


@pytest.fixture
def idx_set() -> IdxSet:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 4, 3), dtype=np.uint8)
    labels = np.arange(50, dtype=np.uint8) % 10
    return IdxSet(
        images,
        labels,
        {
            "train-images-idx3-ubyte": idx_bytes(images[:40]),
            "train-labels-idx1-ubyte": idx_bytes(labels[:40]),
            "t10k-images-idx3-ubyte": idx_bytes(images[40:]),
            "t10k-labels-idx1-ubyte": idx_bytes(labels[40:]),
        },
    )


@dataclass
class WebServer:
    """Files by path; `promised` is a Content-Length that differs from what is sent."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def offer(self, folder: str, idx_set: IdxSet) -> str:
        """Put the gzip files into a folder and return its address."""
        for name, content in idx_set.contents.items():
            self.files[f"/{folder}/{name}.gz"] = gzip.compress(content)
        return f"{self.url}/{folder}/"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            if self.path not in state.files:
                self.send_error(404)
                return
            body = state.files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(state.promised.get(self.path, len(body))))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = WebServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch, idx_set: IdxSet) -> Publish:
    """Make the small files MNIST's published ones, at the addresses given."""

    def at(*base_urls: str) -> None:
        entry = _entry.entries()["mnist"]
        origins = tuple(
            IdxFiles(idx_set.digests, base_urls) if isinstance(origin, IdxFiles) else origin for origin in entry.origins
        )
        monkeypatch.setitem(_entry.entries(), "mnist", dataclasses.replace(entry, origins=origins))

    return at


def put(folder: Path, idx_set: IdxSet, *, compress: bool) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in idx_set.contents.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("subfolder", [".", "mnist"])
def test_pixels_load_in_order_between_zero_and_one(
    tmp_path: Path, idx_set: IdxSet, publish: Publish, compress: bool, subfolder: str
) -> None:
    publish()
    put(tmp_path / subfolder, idx_set, compress=compress)
    data = load_dataset("mnist", data_dir=tmp_path, download=False)
    assert np.allclose(data.X, idx_set.images.reshape(50, 12) / 255, atol=1e-7)
    assert np.array_equal(data.y, idx_set.labels)
    assert data.class_names == tuple("0123456789")
    assert data.source == "the published idx files, verified"


def test_a_file_with_other_content_is_refused(tmp_path: Path, idx_set: IdxSet, publish: Publish) -> None:
    publish()
    put(tmp_path, idx_set, compress=True)
    wrong = tmp_path / "t10k-labels-idx1-ubyte.gz"
    wrong.write_bytes(gzip.compress(idx_bytes(np.zeros(10, np.uint8))))
    with pytest.raises(FileFormatError, match="is not the published file") as caught:
        load_dataset("mnist", data_dir=tmp_path)
    assert str(wrong) in str(caught.value)


def test_a_truncated_gzip_file_is_refused(tmp_path: Path, idx_set: IdxSet, publish: Publish) -> None:
    publish()
    put(tmp_path, idx_set, compress=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileFormatError, match="damaged gzip file"):
        load_dataset("mnist", data_dir=tmp_path)


def test_the_real_digests_refuse_another_data_set_of_the_same_file_names(tmp_path: Path, idx_set: IdxSet) -> None:
    put(tmp_path, idx_set, compress=False)
    for name in ("mnist", "fashion_mnist"):
        with pytest.raises(FileFormatError, match="keep each data set in a folder of its own name"):
            load_dataset(name, data_dir=tmp_path)


def test_files_of_a_distribution_are_found(tmp_path: Path, idx_set: IdxSet) -> None:
    put(tmp_path / "share", idx_set, compress=True)
    files = IdxFiles(idx_set.digests, (), system_folders=(str(tmp_path / "share"),))
    assert files.find([tmp_path]) == tmp_path / "share"


def test_three_of_four_files_are_not_enough(tmp_path: Path, idx_set: IdxSet) -> None:
    put(tmp_path, idx_set, compress=False)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert IdxFiles(idx_set.digests, ()).find([tmp_path]) is None


def test_missing_files_are_downloaded_once(tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish) -> None:
    publish(web.offer("good", idx_set))
    calls: list[tuple[int, int]] = []
    data = load_dataset("mnist", data_dir=tmp_path / "new", progress=lambda *call: calls.append(call))
    assert np.array_equal(data.y, idx_set.labels)
    assert len(web.requests) == 4
    assert [done for done, total in calls if done == total] == [len(file) for file in web.files.values()]
    assert {path.name for path in (tmp_path / "new" / "mnist").iterdir()} == {f"{n}.gz" for n in idx_set.digests}
    load_dataset("mnist", data_dir=tmp_path / "new")
    assert len(web.requests) == 4


def test_only_the_files_that_are_missing_are_downloaded(
    tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish
) -> None:
    publish(web.offer("good", idx_set))
    put(tmp_path / "mnist", idx_set, compress=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    load_dataset("mnist", data_dir=tmp_path)
    assert web.requests == ["/good/t10k-labels-idx1-ubyte.gz"]


def test_the_next_mirror_is_tried(tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish) -> None:
    publish(f"{web.url}/nothing/", web.offer("good", idx_set))
    assert len(load_dataset("mnist", data_dir=tmp_path).X) == 50


def test_nothing_is_downloaded_against_the_users_will(
    tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish
) -> None:
    publish(web.offer("good", idx_set))
    with pytest.raises(DataNotFoundError, match=f"Published at {web.url}/good/"):
        load_dataset("mnist", data_dir=tmp_path, download=False)
    assert web.requests == []
    assert list(tmp_path.iterdir()) == []


def spoil_missing(web: WebServer, path: str) -> None:
    del web.files[path]


def spoil_content(web: WebServer, path: str) -> None:
    web.files[path] = gzip.compress(b"something else")


def spoil_gzip(web: WebServer, path: str) -> None:
    web.files[path] = web.files[path][:-9]


def spoil_connection(web: WebServer, path: str) -> None:
    web.promised[path] = len(web.files[path]) + 100


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (spoil_missing, "404"),
        (spoil_content, "not the published file"),
        (spoil_gzip, "damaged gzip file"),
        (spoil_connection, "the connection ended after"),
    ],
)
def test_a_failed_download_leaves_no_file_and_says_where_and_why(
    tmp_path: Path,
    idx_set: IdxSet,
    web: WebServer,
    publish: Publish,
    spoil: Callable[[WebServer, str], None],
    reason: str,
) -> None:
    publish(web.offer("bad", idx_set))
    spoil(web, "/bad/train-labels-idx1-ubyte.gz")
    with pytest.raises(DataNotFoundError, match=reason) as caught:
        load_dataset("mnist", data_dir=tmp_path)
    message = str(caught.value)
    assert f"{web.url}/bad/train-labels-idx1-ubyte.gz" in message
    assert str(tmp_path) in message
    assert "ONLINEHASH_DATA" in message
    assert [path.name for path in (tmp_path / "mnist").iterdir()] == ["train-images-idx3-ubyte.gz"]


def test_a_server_that_is_not_there_is_a_missing_data_set(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    publish("http://127.0.0.1:9/")
    with pytest.raises(DataNotFoundError, match="refused"):
        load_dataset("mnist", data_dir=tmp_path)


def test_a_folder_that_cannot_be_made_is_a_missing_data_set(
    tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish
) -> None:
    publish(web.offer("good", idx_set))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataNotFoundError, match="Download of train-images-idx3-ubyte"):
        load_dataset("mnist", data_dir=tmp_path / "file")


def test_an_interrupted_download_leaves_no_file(
    tmp_path: Path, idx_set: IdxSet, web: WebServer, publish: Publish
) -> None:
    publish(web.offer("good", idx_set))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_dataset("mnist", data_dir=tmp_path, progress=interrupt)
    assert list((tmp_path / "mnist").iterdir()) == []
