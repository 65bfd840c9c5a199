"""Search over HTTP from a second process on loopback, beside a bare FastAPI echo and faiss behind FastAPI.

100 000 items of 128 numbers, 64 bits; every connection asks for the 10 nearest of one vector, as JSON, and asks again
when the answer is there. The echo takes the same body, reads it as JSON, and answers with as many bytes. The faiss
service is what one writes in ten lines: a pydantic model, a projection, ``IndexBinaryFlat``. The writer, a third
process, replaces and adds 1000 items per second in batches of 100; all it was acknowledged must be there at the end.
The refresh is that of HROH. Quiet rounds and others alternate. Arrays are compared with JSON by the CPU time of client
and service together, in one process. Searches that return the payload too, that are filtered by a label, or that rank
by what was learned (HROH) are compared with the echo at 8 connections.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.client import Client
from onlinehash.hashers import OnlineHasher
from onlinehash.service import serve_in_thread

N, N_LABELLED, D, N_CLASSES, K = 100_000, 5000, 128, 100, 10
CONNECTIONS = (1, 8, 64)
SECONDS, ROUNDS = 1.0, 3
BATCH, BATCHES_A_SECOND = 100, 10
STARTING = 60.0  # seconds in which a process starts, answers or ends
_SERVE = """
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]} ", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
"""
_ECHO = """
import uvicorn, socket, sys
from fastapi import FastAPI, Request, Response
app = FastAPI()
answer = b"x" * int(sys.argv[1])
@app.post("/echo")
async def echo(request: Request) -> Response:
    await request.json()
    return Response(answer)
"""
_FAISS = """
import os
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # the threads of one query disturb the others
import faiss, numpy as np, socket, sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
rng = np.random.default_rng(0)
projection = rng.standard_normal((int(sys.argv[2]), 64), np.float32)
index = faiss.IndexBinaryFlat(64)
index.add(rng.integers(0, 256, (int(sys.argv[1]), 8), dtype=np.uint8))
class Query(BaseModel):
    vectors: list[list[float]]
    k: int = 10
app = FastAPI()
@app.post("/search")
def search(query: Query) -> dict[str, list[list[int]]]:
    bits = np.array(query.vectors, np.float32) @ projection >= 0
    distances, ids = index.search(np.packbits(bits, axis=1, bitorder="little"), query.k)
    return {"ids": ids.tolist(), "distances": distances.tolist()}
"""


def make_items(n_items: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    centres = np.random.default_rng(0).standard_normal((N_CLASSES, D), np.float32)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n_items)
    return centres[y] + rng.standard_normal((n_items, D), np.float32), y


@contextmanager
def process(*command: str) -> Iterator[str]:
    """Start a server that tells its address; end it at the end."""
    with tempfile.TemporaryFile("w+") as said:  # a pipe that nobody reads would stop the server when it is full
        server = subprocess.Popen([sys.executable, *command], stderr=said)
        try:
            found, end = None, perf_counter() + STARTING
            while found is None:
                said.seek(0)
                text = said.read()
                found = re.search(r"(http://\S+)\s", text)
                if found is None and (server.poll() is not None or perf_counter() > end):
                    raise RuntimeError(f"{command} does not start: {text}")
                sleep(0.05)
            yield found[1]
        finally:
            server.terminate()
            try:
                server.wait(STARTING)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def request_bytes(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def ask(url: str, requests: list[bytes], first: int, end: float, seconds: list[float]) -> None:
    """Ask one after the other on one connection."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    number = first
    while perf_counter() < end:
        start = perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
        seconds.append(perf_counter() - start)
        number += 1
    writer.close()


async def load(url: str, requests: list[bytes], n_connections: int) -> list[float]:
    """Return the seconds of every request that as many connections as said could send."""
    seconds: list[float] = []
    end = perf_counter() + SECONDS
    await asyncio.gather(*(ask(url, requests, 37 * i, end, seconds) for i in range(n_connections)))
    return seconds


def write(url: str, told: Connection) -> None:
    """Add or replace items at a steady rate whenever told to; tell the rate, and at the end which were acknowledged."""
    X, y = make_items(10_000, seed=2)
    rng = np.random.default_rng(3)
    ids: set[int] = set()
    with Client(url) as client:
        told.send("ready")
        while told.recv():
            start, n_batches = perf_counter(), 0
            while not told.poll():
                some = rng.integers(0, len(X), BATCH)
                batch = rng.choice(2 * N, BATCH, replace=False)
                client.upsert(batch, X[some], y[some])
                ids.update(batch.tolist())
                n_batches += 1
                sleep(max(0.0, start + n_batches / BATCHES_A_SECOND - perf_counter()))
            told.recv()
            told.send(n_batches * BATCH / (perf_counter() - start))
    told.send(ids)


@contextmanager
def writer(url: str) -> Iterator[Connection]:
    """Start a process that writes when it is sent True, until it is sent False; a second False ends it."""
    context = get_context("spawn")
    here, there = context.Pipe()
    writing = context.Process(target=write, args=(url, there), daemon=True)
    writing.start()
    there.close()  # so that recv fails if the writer has
    try:
        here.recv()
        yield here
    finally:
        writing.join(STARTING)


def measure(urls: dict[str, tuple[str, list[bytes]]]) -> list[Row]:
    """Ask all servers in turn, at every number of connections."""
    rows = []
    for n_connections in CONNECTIONS:
        taken: dict[str, list[list[float]]] = {name: [] for name in urls}
        for round_ in range(ROUNDS + 1):
            for name, (url, requests) in urls.items():
                seconds = asyncio.run(load(url, requests, n_connections))
                if round_:  # the first warms up
                    taken[name].append(seconds)
        for quantile, meaning in ((50, "p50"), (99, "p99")):
            values = {name: [float(np.percentile(some, quantile)) for some in runs] for name, runs in taken.items()}
            ratios = [a / b for a, b in zip(values["search"], values["echo"], strict=True)]
            rates = {f"{name}, seconds per request": SECONDS / median(map(len, runs)) for name, runs in taken.items()}
            what = f"{K} nearest of {N} items over HTTP, {n_connections} connections, {meaning}"
            medians = {name: median(some) for name, some in values.items()}
            rows.append(Row.of(what, ratios, "search / bare echo", "-", medians | rates))
        for name, bar in (("echo", "at least 0.5"), ("faiss", "at least 1.5 at 64")):
            ratios = [len(a) / len(b) for a, b in zip(taken["search"], taken[name], strict=True)]
            what = f"requests per second, {n_connections} connections"
            rows.append(Row.of(what, ratios, f"search / {name}", bar))
    return rows


def measure_kinds(echo: tuple[str, list[bytes]], kinds: dict[str, tuple[str, list[bytes], str]]) -> list[Row]:
    """Compare kinds of searches with the echo at 8 connections, all in turn; each has a bar."""
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for round_ in range(ROUNDS + 1):
        n_echoes = len(asyncio.run(load(*echo, CONNECTIONS[1])))
        for name, (url, requests, _) in kinds.items():
            share = len(asyncio.run(load(url, requests, CONNECTIONS[1]))) / n_echoes
            if round_:  # the first warms up
                taken[name].append(share)
    what = f"requests per second, {CONNECTIONS[1]} connections, "
    return [Row.of(what + name, taken[name], "search / echo", bar) for name, (_, _, bar) in kinds.items()]


def p99(url: str, requests: list[bytes], n_connections: int) -> float:
    return float(np.percentile(asyncio.run(load(url, requests, n_connections)), 99))


def during_writes(url: str, requests: list[bytes], client: Client) -> list[Row]:
    """Compare the p99 of searches while items are written with the quiet one."""
    rows, rates = [], []
    p99(url, requests, 8)
    with writer(url) as told:
        for n_connections in CONNECTIONS[:2]:
            pairs = []
            for _ in range(ROUNDS):
                quiet = p99(url, requests, n_connections)
                told.send(True)
                pairs.append((p99(url, requests, n_connections), quiet))
                told.send(False)
                rates.append(told.recv() / (BATCH * BATCHES_A_SECOND))
            ratios = [busy / quiet for busy, quiet in pairs]
            what = f"p99 of a search while {BATCH * BATCHES_A_SECOND} items per second are written, "
            seconds = {"writing": median(busy for busy, _ in pairs), "quiet": median(quiet for _, quiet in pairs)}
            what += f"{n_connections} connections"
            rows.append(Row.of(what, ratios, "writing / quiet", "at most 4", seconds))
        told.send(False)
        written: set[int] = told.recv()
    added = sorted(id for id in written if id >= N)
    if len(client.get(added)) != len(added) or len(client) != N + len(added):
        raise RuntimeError("Acknowledged items are lost")
    what = "items written per second during that"
    rows.append(Row.of(what, rates, "written / wanted", "at least 0.99"))
    return rows


def arrays_against_json() -> list[Row]:
    """Compare the CPU time of answers with vectors, and of one without, as .npy and as JSON."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 768), np.float32)
    with (
        TemporaryDirectory() as folder,
        Collection.open(Path(folder) / "items.oh", LSH(64, random_state=0)) as collection,
        serve_in_thread(collection) as url,
        Client(url) as client,
        httpx.Client(base_url=url, timeout=STARTING) as http,
    ):
        collection.upsert(range(len(X)), X)
        collection.refresh()
        ids = list(range(1000))

        def get_json() -> list[NDArray[np.float32]]:
            found = http.post("/api/v1/items/get", json={"ids": ids}).json()
            return [np.array(item["vectors"], np.float32) for item in found["items"]]

        seconds = interleaved({"JSON": get_json, ".npy": lambda: client.get(ids)}, ROUNDS)
        found = client.search(X[:1000], 100)
    what = "1000 items of 768 numbers over HTTP, CPU time of both sides"
    rows = [compare(what, seconds, "JSON", ".npy", "at least 10")]
    content = {"version": 1, "ids": found.ids, "distances": found.distances}

    def as_npy() -> None:
        file = io.BytesIO()
        for name in ("ids", "distances"):
            np.save(file, np.array(content[name], np.int64))
        file.seek(0)
        for _ in ("ids", "distances"):
            np.load(file).tolist()

    seconds = interleaved({"JSON": lambda: json.loads(msgspec.json.encode(content)), ".npy": as_npy}, ROUNDS)
    what = "100 neighbours of 1000 queries, written and read, which stays JSON"
    return [*rows, compare(what, seconds, "JSON", ".npy", "at most 2")]


def make_collection(path: Path, hasher: OnlineHasher) -> None:
    """Store all items; those without a label are not learned from, which takes long."""
    X, y = make_items(N, seed=1)
    labels = [label if i < N_LABELLED else None for i, label in enumerate(y.tolist())]
    with Collection.open(path, hasher) as collection:
        for start in range(0, N, 10_000):
            some, ids = slice(start, start + 10_000), range(start, min(start + 10_000, N))
            collection.upsert(ids, X[some], labels[some], [{"name": f"item {id}", "price": id % 100} for id in ids])


def during_refresh(url: str, requests: list[bytes], client: Client) -> Row:
    """Compare the p99 of searches while HROH is refreshed with the quiet one."""
    X, y = make_items(100, seed=2)
    p99(url, requests, 1)
    quiet = median(p99(url, requests, 1) for _ in range(ROUNDS))
    client.upsert(range(100), X, y)
    client.refresh(wait=False)
    busy = [p99(url, requests, 1)]
    while len(busy) < ROUNDS and client.stats().refreshing:
        busy.append(p99(url, requests, 1))
    ratios = [one / quiet for one in busy]
    what = "p99 of a search while HROH is refreshed, 1 connection"
    seconds = {"refreshing": median(busy), "quiet": quiet}
    return Row.of(what, ratios, "refreshing / quiet", "at most 4", seconds)


def run() -> list[Row]:
    queries = make_items(200, seed=4)[0]

    def asking(path: str, **options: object) -> list[bytes]:
        bodies = [{"vectors": [query.tolist()], "k": K, **options} for query in queries]
        return [request_bytes(path, json.dumps(body).encode()) for body in bodies]

    searches = asking("/api/v1/search")
    with TemporaryDirectory() as folder:
        path, learned = Path(folder) / "items.oh", Path(folder) / "learned.oh"
        make_collection(path, HCOH(n_bits=64, random_state=0))
        make_collection(learned, HROH(n_bits=64, random_state=0))
        size = len(json.dumps({"version": N, "ids": [[N] * K], "distances": [[1] * K]}))
        with process("-m", "onlinehash.cli", "serve", str(path), "--port", "0") as url, Client(url) as client:
            with process("-c", _ECHO + _SERVE, str(size)) as echo:
                with process("-c", _FAISS + _SERVE, str(N), str(D)) as faiss:
                    urls = {
                        "search": (url, searches),
                        "echo": (echo, asking("/echo")),
                        "faiss": (faiss, asking("/search")),
                    }
                    rows = measure(urls)
                with process("-m", "onlinehash.cli", "serve", str(learned), "--port", "0") as learned_url:
                    kinds = {
                        "plain search": (url, searches, "at least 0.5"),
                        "with payload": (url, asking("/api/v1/search", include=["payload"]), "at least 0.25"),
                        "label filter": (url, asking("/api/v1/search", labels=[7]), "at least 0.3"),
                        "learned ranking": (learned_url, searches, "at least 0.15"),
                    }
                    rows += measure_kinds(urls["echo"], kinds)
                    with Client(learned_url) as learned_client:
                        refreshed = during_refresh(learned_url, searches, learned_client)
            rows += during_writes(url, searches, client)
    return [*rows, refreshed, *arrays_against_json()]
