"""A served collection in a process of its own."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np

from onlinehash import HCOH, Collection
from onlinehash.collection import Never
from onlinehash.service import serve_in_thread

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(4, 6))
Y = RNG.integers(0, 4, 200)
X = (CENTRES[Y] + 0.3 * RNG.normal(size=(200, 6))).astype(np.float32)


class Server:
    """A process of ``onlinehash serve``."""

    def __init__(self, path, *options, env=None, before=None):
        command = [sys.executable, "-m", "onlinehash.cli", "serve", *map(str, (path, "--port", 0, *options))]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, preexec_fn=before
        )
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self.process.stderr.read()
        self.url = found[0]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.said = self.process.communicate(timeout=30)[1]
        return self.process.returncode


@contextmanager
def running(path, *options, **settings):
    server = Server(path, *options, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)


@contextmanager
def serving_here(path):
    """Serve a collection from a thread of this process, which starts sooner."""
    with Collection.open(path) as collection, serve_in_thread(collection) as url:
        yield url


def make(path, n_items=0):
    """Create a collection with so many items, of integer ids."""
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
        if n_items:
            collection.upsert(range(n_items), X[:n_items], Y[:n_items])
    return path
