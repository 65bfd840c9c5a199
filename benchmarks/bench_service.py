"""Search over HTTP from a second process on loopback, beside a bare FastAPI echo and faiss behind FastAPI.

100 000 items of 128 numbers, 64 bits; every connection asks for the 10 nearest of one vector, as JSON, and asks again
when the answer is there. The echo takes the same body, reads it as JSON, and answers with as many bytes. The faiss
service is what one writes in ten lines: a pydantic model, a projection, ``IndexBinaryFlat``. The writer, a third
process, replaces and adds 1000 items per second in batches of 100; all it was acknowledged must be there at the end.
The refresh is that of HROH.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row
from onlinehash import HCOH, HROH, Collection
from onlinehash.client import Client

N, D, N_CLASSES, K = 100_000, 128, 100, 10
CONNECTIONS = (1, 8, 64)
SECONDS, ROUNDS = 5.0, 3
BATCH, BATCHES_A_SECOND = 100, 10
_ECHO = """
import uvicorn, socket, sys
from fastapi import FastAPI, Request, Response
app = FastAPI()
answer = b"x" * int(sys.argv[1])
@app.post("/echo")
async def echo(request: Request) -> Response:
    await request.json()
    return Response(answer)
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]} ", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
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
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]} ", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
"""


def make_items(n_items: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    centres = np.random.default_rng(0).standard_normal((N_CLASSES, D), np.float32)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n_items)
    return centres[y] + rng.standard_normal((n_items, D), np.float32), y


@contextmanager
def process(*command: str) -> Iterator[str]:
    """Start a server that tells its address; end it at the end."""
    server = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(line + server.stderr.read())
        yield found[0]
    finally:
        server.terminate()
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
    """Add or replace items at a steady rate until told to stop; tell which ids were acknowledged."""
    X, y = make_items(10_000, seed=2)
    rng = np.random.default_rng(3)
    ids: set[int] = set()
    start, n_batches, latest = perf_counter(), 0, 0.0
    with Client(url, retries=0) as client:
        while not told.poll():
            some = rng.integers(0, len(X), BATCH)
            batch = rng.choice(2 * N, BATCH, replace=False)
            client.upsert(batch, X[some], y[some])
            ids.update(batch.tolist())
            n_batches += 1
            late = perf_counter() - start - n_batches / BATCHES_A_SECOND
            latest = max(latest, late)
            sleep(max(0.0, -late))
    told.send((ids, n_batches * BATCH / (perf_counter() - start), latest))


@contextmanager
def writer(url: str) -> Iterator[dict[str, Any]]:
    """Write from another process while the block lasts."""
    context = get_context("spawn")
    here, there = context.Pipe()
    writing = context.Process(target=write, args=(url, there))
    writing.start()
    told: dict[str, Any] = {}
    try:
        yield told
    finally:
        here.send("stop")
        told["ids"], told["rate"], told["latest"] = here.recv()
        writing.join()


def measure(urls: dict[str, tuple[str, list[bytes]]], what: str) -> list[Row]:
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
            rows.append(
                Row(
                    f"{K} nearest of {N} items over HTTP, {n_connections} connections{what}, {meaning}",
                    median(ratios),
                    min(ratios),
                    max(ratios),
                    "search / bare echo",
                    "-",
                    {name: median(some) for name, some in values.items()} | rates,
                )
            )
        for name, bar in (("echo", "at least 0.5"), ("faiss", "at least 1.5 at 64")):
            if name in taken:
                ratios = [len(a) / len(b) for a, b in zip(taken["search"], taken[name], strict=True)]
                rows.append(
                    Row(
                        f"requests per second, {n_connections} connections{what}",
                        median(ratios),
                        min(ratios),
                        max(ratios),
                        f"search / {name}",
                        bar,
                    )
                )
    return rows


def p99(url: str, requests: list[bytes], n_connections: int) -> float:
    return float(np.percentile(asyncio.run(load(url, requests, n_connections)), 99))


def during_refresh(requests: list[bytes]) -> Row:
    """Compare the p99 of searches while HROH is refreshed with the quiet one."""
    X, y = make_items(N, seed=1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "items.oh"
        with Collection.open(path, HROH(n_bits=64, random_state=0)) as collection:
            for start in range(0, N, 10_000):
                some = slice(start, start + 10_000)
                collection.upsert(range(start, min(start + 10_000, N)), X[some], y[some])
            collection.refresh()
        with process("-m", "onlinehash.cli", "serve", str(path), "--port", "0") as url, Client(url) as client:
            p99(url, requests, 1)
            ratios = []
            for _ in range(ROUNDS):
                quiet = p99(url, requests, 1)
                client.upsert(range(100), X[:100], y[:100])
                client.refresh(wait=False)
                ratios.append(p99(url, requests, 1) / quiet)
                client.refresh()
    what = "p99 of a search while HROH is refreshed, 1 connection"
    return Row(what, median(ratios), min(ratios), max(ratios), "refreshing / quiet", "at most 4")


def run() -> list[Row]:
    X, y = make_items(N, seed=1)
    queries = make_items(200, seed=4)[0]
    bodies = [json.dumps({"vectors": [query.tolist()], "k": K}).encode() for query in queries]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "items.oh"
        with Collection.open(path, HCOH(n_bits=64, random_state=0)) as collection:
            for start in range(0, N, 1000):
                some = slice(start, start + 1000)
                collection.upsert(range(start, min(start + 1000, N)), X[some], y[some])
            collection.refresh()
        with process("-m", "onlinehash.cli", "serve", str(path), "--port", "0") as url, Client(url) as client:
            size = len(json.dumps({"version": N, "ids": [[N] * K], "distances": [[1] * K]}))
            with process("-c", _ECHO, str(size)) as echo, process("-c", _FAISS, str(N), str(D)) as faiss:
                urls = {
                    "search": (url, [request_bytes("/api/v1/search", body) for body in bodies]),
                    "echo": (echo, [request_bytes("/echo", body) for body in bodies]),
                    "faiss": (faiss, [request_bytes("/search", body) for body in bodies]),
                }
                rows = measure(urls, "")
                with writer(url) as told:
                    rows += measure(urls, f", {BATCH * BATCHES_A_SECOND} items per second written")
            lost = [id for id in told["ids"] if id >= N and id not in client]
            if lost or len(client) != N + sum(id >= N for id in told["ids"]):
                raise RuntimeError(f"{len(lost)} acknowledged items are lost")
            rate = told["rate"] / (BATCH * BATCHES_A_SECOND)
            rows.append(
                Row("items written a second during that", rate, rate, rate, "written / wanted", "at least 0.99")
            )
    rows.append(during_refresh([request_bytes("/api/v1/search", body) for body in bodies]))
    return rows
