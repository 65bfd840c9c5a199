import os
from functools import cache

import pytest
import typer

# Before NumPy is imported: tests run on all cores already, where a second thread of a product mostly waits.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in docstrings in the package only, not in tests."""
    return [file for file in (yield) if isinstance(file, pytest.Module)]


@pytest.fixture(scope="session", autouse=True)
def commands_are_built_once():
    """Keep the commands that Typer builds of their functions, else for each line that a test runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command), raising=False)
        yield
