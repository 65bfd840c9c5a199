"""Lease: one learner at a time writes to a collection of a Milvus server, which has no locks."""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any

from onlinehash.collection.stores.milvus_journal import Journal
from onlinehash.exceptions import LockedError, StorageError

_BEAT = 5.0  # seconds between two claims
_LONG = 30.0  # seconds after which a claim without a newer one is nobody's
_SURE = 20.0  # seconds after which we do not trust our own


class Lease:
    """Claim the right to write, again and again until it is released.

    Whoever sees the claim of another takes back their own: of two that claim at once, one or none goes on. A claim is
    void when it is 30 seconds old, by clocks that should agree to some seconds, or when its process was on this machine
    and has ended.

    Parameters
    ----------
    journal : Journal
    place : str
        Named in the error.
    """

    def __init__(self, journal: Journal, place: str) -> None:
        self._journal, self._place = journal, place
        self._number, self._at = 0, 0.0
        self._lost = False
        self._ended, self._guard = Event(), Lock()
        self._claim()
        self._thread = Thread(target=self._go_on, name="onlinehash lease", daemon=True)
        self._thread.start()

    def demand(self) -> None:
        """Raise if another may have taken over; to be asked right before a commit."""
        if self._is_old():
            self._claim()
        if self._lost:
            raise LockedError(f"Another process has begun to write to {self._place}; open it again.")

    def release(self) -> None:
        """Let another write."""
        self._ended.set()
        self._thread.join()
        with suppress(StorageError):
            self._journal.unclaim(self._number)

    def _go_on(self) -> None:
        while not self._ended.wait(_BEAT):
            with suppress(StorageError):  # until the next time: demand() sees to it that it is not too late
                self._claim()

    def _is_old(self) -> bool:
        return abs(time.time() - self._at) > _SURE

    def _claim(self) -> None:
        """Claim anew; a claim that is not old yet is nobody else's to take, and needs no look at others."""
        with self._guard:
            if self._lost:
                return
            before, number, claim = self._number, -1 - secrets.randbits(60), _claim_of_ours()
            self._journal.claim(number, claim)
            if self._is_old():
                self._look_at_others(before, number)
            if before:
                self._journal.unclaim(before)
            self._number, self._at = number, claim["at"]

    def _look_at_others(self, before: int, number: int) -> None:
        for other, claim in self._journal.claims().items():
            if other in (before, number):
                continue
            if _is_void(claim):
                self._journal.unclaim(other)
                continue
            self._journal.unclaim(number)
            self._lost = True
            raise LockedError(
                f"{self._place} is open for writing already ({claim['who']}); one writer at a time. Close the other, "
                "or open this one with readonly=True."
            )


def _claim_of_ours() -> dict[str, Any]:
    host, pid = socket.gethostname(), os.getpid()
    return {"who": f"process {pid} on {host}", "host": host, "pid": pid, "at": time.time()}


def _is_void(claim: dict[str, Any]) -> bool:
    if time.time() - claim["at"] > _LONG:
        return True
    if claim["host"] != socket.gethostname() or os.name == "nt":
        return False
    try:
        os.kill(claim["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
