"""Settings that must be there before libraries are imported, and modules that cannot be imported here."""

import gc
import os
import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # tests run side by side
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that tests start compiles the package
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # else it breaks programs that tests start by a fork

# Files of tests are in memory where there is plenty of it: on a disk, each commit waits for milliseconds.
memory = Path("/dev/shm")
if "TMPDIR" not in os.environ and memory.is_dir() and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
    tempfile.tempdir = str(memory) if shutil.disk_usage(memory).free > 8 << 30 else None

collect_ignore = ["tests/smoke.py"]  # a program, which a test runs
collect_ignore_glob = [] if find_spec("cupy") else ["src/onlinehash/*/engines/gpu*.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Import all tests without a look at what can be freed: that takes long, and all of it stays."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def pytest_ignore_collect(collection_path, config):
    """Spare a quick run the imports of modules whose tests are all slow."""
    if config.option.markexpr == "not slow" and collection_path.match("test_*.py"):
        text = collection_path.read_text(encoding="utf-8")
        return True if re.search(r"^pytestmark = .*mark\.slow\b", text, re.MULTILINE) else None
    return None


# A busy machine is no fault of a test.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_xdist_auto_num_workers(config):
    """Run more processes than there are cores, because slow tests wait for programs half of the time."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_cores if config.option.markexpr == "not slow" else n_cores + 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with files that have slow tests: quick ones fill the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
