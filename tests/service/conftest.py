import inspect
import os
import shutil
import ssl
from functools import cache

import httpx
import pytest
from tests.service.running import MOST_MILLISECONDS, make, running

from onlinehash.client import Client

# A server on a busy machine may take longer than the five seconds that httpx waits by default.
TIMEOUT = inspect.signature(httpx.Client).parameters["timeout"].default
TIMEOUT.connect = TIMEOUT.read = TIMEOUT.write = TIMEOUT.pool = 180.0


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once():
    """Keep what httpx makes of the certificates of the machine, else for each request of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items.oh"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of 100 items, shared by tests, which leave it as it is."""
    with running(make(tmp_path_factory.mktemp("served") / "items.oh", 100)) as server:
        yield server
        assert server.stop() == 0
        assert not server.said, server.said


@pytest.fixture(scope="module")
def client(server):
    with Client(server.url, retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    """Chromium, for the tests of a module."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        reason = "There is no Chromium here; on Debian, run: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        expect.set_options(timeout=MOST_MILLISECONDS)
        yield browser
        browser.close()
