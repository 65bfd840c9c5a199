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


def call(folder):
    """Call the kernel of a module in a new process; return where it is kept, and whether it was found there."""
    source = Path(onlinehash.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{source}"}
    env.pop("NUMBA_CACHE_DIR", None)
    run = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, env=env, check=True)
    path, n_hits = run.stdout.split()
    return path, n_hits == "1"


@pytest.mark.slow
def test_a_kernel_is_compiled_once_beside_its_source(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "doubling.py").write_text(MODULE)
    (path, first), (_, second) = call(folder), call(folder)
    assert Path(path) == folder / "__pycache__"
    assert (first, second) == (False, True)


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
