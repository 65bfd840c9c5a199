import os
import shutil

import pytest
from tests.service.running import make, running

from onlinehash.client import Client


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items.oh"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of 100 items, shared by the tests of a module, which leave it as it is."""
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
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()
