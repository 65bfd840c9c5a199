"""Where compiled kernels are kept, and who finds them again."""

import logging
from importlib.util import module_from_spec, spec_from_file_location

import numba
import pytest

from onlinehash import _kernel

SOURCE = """
from onlinehash._kernel import kernel

@kernel()
def double(x):
    return 2 * x
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that imports a module with a kernel, as a new process would."""
    path = tmp_path / "package" / "doubling.py"
    path.parent.mkdir()
    path.write_text(SOURCE)

    def load(cache_folder=""):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache_folder))
        spec = spec_from_file_location("doubling", path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    return load


def is_compiled(double):
    assert double(2) == 4
    return bool(double.stats.cache_misses)


def test_a_kernel_is_compiled_once(load):
    assert [is_compiled(load()) for _ in range(2)] == [True, False]


def test_kernels_beside_the_source_serve_users_who_cannot_write_there(load, tmp_path):
    load()(2)
    assert not is_compiled(load(tmp_path / "of_another_user"))


def test_what_an_administrator_did_not_compile_is_kept_by_the_user(load, tmp_path):
    folder = tmp_path / "of_a_user"
    assert [is_compiled(load(folder)) for _ in range(2)] == [True, False]
    assert is_compiled(load())  # nothing was written beside the source


def test_kernels_are_found_and_none_is_written_where_no_folder_can_be_written(load, monkeypatch, tmp_path):
    def refuse(*_):
        raise PermissionError

    locators = _kernel._Files._locator_classes
    for locator in locators:
        monkeypatch.setattr(locator, "ensure_cache_path", refuse)
    monkeypatch.setattr(_kernel._CacheFile, "save", refuse)
    assert is_compiled(load())
    monkeypatch.undo()
    load()(2)
    for locator in locators:
        monkeypatch.setattr(locator, "ensure_cache_path", refuse)
    assert not is_compiled(load())


def test_the_first_compilation_is_logged_once(load, monkeypatch, caplog):
    monkeypatch.setattr(_kernel._Cache, "announced", False)
    with caplog.at_level(logging.INFO, "onlinehash._kernel"):
        double = load()
        double(2)
        double(2.5)
    assert [record.getMessage() for record in caplog.records] == ["Compiling for this processor (once) ..."]
