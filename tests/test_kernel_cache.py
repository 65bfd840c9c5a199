"""Where compiled kernels are kept, and that read-only arrays are accepted."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onlinehash
from onlinehash._internal.kernels import kernel, read_only

MODULE = """
from onlinehash._internal.kernels import kernel

@kernel()
def double(x):
    return 2 * x
"""
CALL = """
import doubling
doubling.double(2)
stats = doubling.double.stats
print(stats.cache_path, sum(stats.cache_hits.values()))
"""


def call(folder, home, **settings):
    """Call the kernel of a module in a new process; return where it is kept, and whether it was found there."""
    source = Path(onlinehash.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{source}", "HOME": str(home)}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        env.pop(name, None)
    run = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, env=env | settings, check=True)
    path, n_hits = run.stdout.split()
    return path, n_hits == "1"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "doubling.py").write_text(MODULE)
    return tmp_path / "package"


@pytest.mark.slow
def test_a_kernel_is_compiled_once_beside_its_source(folder, tmp_path):
    (path, first), (_, second) = call(folder, tmp_path), call(folder, tmp_path)
    assert Path(path) == folder / "__pycache__"
    assert (first, second) == (False, True)


@pytest.mark.slow
def test_kernels_are_kept_where_the_variable_says(folder, tmp_path):
    path, _ = call(folder, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    assert Path(path).is_relative_to(tmp_path / "kernels")


@pytest.mark.slow
def test_a_read_only_installation_keeps_kernels_in_the_cache_of_the_user(folder, tmp_path):
    (folder / "__pycache__").write_text("")  # no folder can be made here, not even by root
    path, _ = call(folder, tmp_path / "home", PYTHONDONTWRITEBYTECODE="1")
    assert Path(path).is_relative_to(tmp_path / "home")


def test_a_kernel_whose_source_is_in_no_file_is_compiled_in_every_process():
    scope = {}
    exec(compile("def double(x): return 2 * x", "<nowhere>", "exec"), scope)
    assert kernel()(scope["double"])(4) == 8


def test_read_only_and_mapped_arrays_are_taken(tmp_path):
    @kernel()
    def total(values):
        return values.sum()

    np.save(tmp_path / "values.npy", np.arange(4.0))
    assert total(read_only(np.load(tmp_path / "values.npy", mmap_mode="r"))) == 6.0
    assert total(np.arange(4.0)) == 6.0
