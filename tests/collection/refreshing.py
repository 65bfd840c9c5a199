"""Stop a refresh at a known place: what the background thread reads goes through a function of the test."""

import threading
from contextlib import contextmanager

TIMEOUT = 180  # seconds after which a test that waits in vain fails


def before_each_chunk(monkeypatch, collection, call):
    """Call a function before the refresh thread of a collection reads a chunk of the stream, with its number."""
    read, n_read = collection._store.stream, [0]

    def stream(*args, **kwargs):
        if threading.current_thread().name == "onlinehash refresh":
            n_read[0] += 1
            call(n_read[0] - 1)
        return read(*args, **kwargs)

    monkeypatch.setattr(collection._store, "stream", stream)
    return n_read


def wait_for_refresh(collection):
    """Return when no refresh is under way, and none is due; raise what ended the last too early."""
    collection._refresher.wait()


@contextmanager
def held(monkeypatch, collection, chunk=0):
    """Hold every refresh at a chunk until the block ends, or it is told to stop; give an event: it is there."""
    there, refresher, done = threading.Event(), collection._refresher, [False]

    def hold(number):
        if number >= chunk:
            there.set()
            with refresher._state:
                assert refresher._state.wait_for(lambda: refresher._stopping or done[0], TIMEOUT)

    with monkeypatch.context() as patch:
        before_each_chunk(patch, collection, hold)
        try:
            yield there
        finally:
            with refresher._state:
                done[0] = True
                refresher._state.notify_all()
