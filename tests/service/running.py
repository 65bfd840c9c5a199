"""A served collection in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from tests.servers import program

from onlinehash import HCOH, Collection
from onlinehash.service import serve_in_thread

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(4, 6))
Y = RNG.integers(0, 4, 200)
X = (CENTRES[Y] + 0.3 * RNG.normal(size=(200, 6))).astype(np.float32)

MOST_MILLISECONDS = 180_000  # that a page waits for anything

START = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Server:
    """A process of ``onlinehash serve``; with ``max_file_bytes``, its files cannot grow beyond that."""

    def __init__(self, path, *options, env=None, max_file_bytes=None):
        command = [sys.executable, "-m", "onlinehash.cli", "serve", *map(str, (path, "--port", 0, *options))]
        if max_file_bytes is not None:
            # Not with preexec_fn: a fork of a process that has threads may wait for ever.
            command = [sys.executable, "-c", START, str(max_file_bytes), *command]
        self.start(command, env or {})

    def start(self, command, env):
        output, name = tempfile.mkstemp()  # a pipe that nobody reads stops the process when it is full
        self.process = subprocess.Popen(command, stderr=output, env={**os.environ, **env})
        os.close(output)
        self._output, end = Path(name), time.monotonic() + 180
        # The first lines may be warnings, such as one of the quality of the items of --demo.
        while (found := re.search(r"^Serving.*?(https?://\S+).*\n", self._output.read_text(), re.MULTILINE)) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                self.process.wait()
                raise AssertionError(self._output.read_text())
            time.sleep(0.02)
        self._first, self.url = found[0], found[1]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=180)
        self.said = self._output.read_text().replace(self._first, "", 1)
        self._output.unlink(missing_ok=True)
        return self.process.returncode


@contextmanager
def running(path, *options, **settings):
    server = Server(path, *options, **settings)
    try:
        yield server
    except BaseException:
        said = server._output.read_text() if server._output.exists() else server.said
        print(f"The service has ended with {server.process.poll()}, and said:\n{said}")
        raise
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)


def make_certificate(folder):
    """Write a certificate for 127.0.0.1 and its key, and return where they are."""
    files = folder / "cert.pem", folder / "key.pem"
    command = [program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-out", files[0], "-keyout", files[1], *subject], check=True, capture_output=True)
    return files


def new_context(browser, **settings):
    """Open a context of a browser, whose pages may take as long as they do on a busy machine."""
    context = browser.new_context(**settings)
    context.set_default_timeout(MOST_MILLISECONDS)
    return context


@contextmanager
def serving_here(path):
    """Serve a collection from a thread of this process, which starts sooner."""
    with Collection.open(path) as collection, serve_in_thread(collection) as url:
        yield url


def make(path, n_items=0):
    """Create a collection with so many items, of integer ids."""
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        if n_items:
            collection.upsert(range(n_items), X[:n_items], Y[:n_items])
    return path


PROGRAM = """
import json, sys
from onlinehash import Collection
from onlinehash.service import Limits, create_app, server, ApiKeys
path, limits, keys = sys.argv[1], Limits(**json.loads(sys.argv[2])), ApiKeys.of(write=json.loads(sys.argv[3]))
with Collection.open(path) as collection, server.listen("127.0.0.1", 0, keys) as listening:
    print("Serving on", server.url_of(listening), file=sys.stderr, flush=True)
    server.run(create_app(collection, limits=limits, keys=keys), listening, limits)
"""


class LimitedServer(Server):
    """A process that serves with limits of a test's own, and whose memory and health are watched."""

    def __init__(self, path, keys=(), **limits):
        command = [sys.executable, "-c", PROGRAM, str(path), json.dumps(limits), json.dumps(list(keys))]
        self.start(command, {})

    def memory(self, name):
        """Return a number of /proc/PID/status in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) << 10

    def seconds(self):
        """Return the seconds that the process has computed, which pass no faster on a busy machine."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def watched(self, most_bytes, most_seconds=1.0):
        """Demand that the process grows little, and answers /healthz soon, while the block lasts."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # starts the peak anew
        before, longest, done = self.memory("VmRSS"), [], threading.Event()

        def ask():
            with httpx.Client(base_url=self.url, timeout=180) as http:
                while not (done.is_set() and longest):
                    start = self.seconds()
                    assert http.get("/healthz").status_code == 200
                    longest.append(self.seconds() - start)
                    done.wait(0.02)

        asker = threading.Thread(target=ask)
        asker.start()
        try:
            yield
        finally:
            done.set()
            asker.join()
        self.grown, self.longest = self.memory("VmHWM") - before, max(longest)
        assert self.grown < most_bytes
        assert max(longest) < most_seconds
