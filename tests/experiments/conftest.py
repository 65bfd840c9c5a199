import multiprocessing
import sys

import pytest

import onlinehash.experiments  # noqa: F401


@pytest.fixture(autouse=True)
def workers_start_at_once(monkeypatch):
    """Let workers be forks of one process that has imported everything, else each takes seconds to import it."""
    if sys.platform != "win32":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["onlinehash.experiments", "onlinehash.hashers", "onlinehash.checks"])
        monkeypatch.setattr(sys.modules["onlinehash.experiments.reproduce"], "get_context", lambda method: context)
