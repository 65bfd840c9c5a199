import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in docstrings in the package only, not in tests."""
    return [file for file in (yield) if isinstance(file, pytest.Module)]
