"""Settings that must be there before libraries are imported, and modules that cannot be imported here."""

import gc
import os
import re
import shutil
import tempfile
from collections import Counter
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


# A busy machine is no fault of a test; and examples are the same in each run, and drawn at random in a thorough one.
settings.register_profile(
    "ours",
    deadline=None,
    derandomize=os.environ.get("ONLINEHASH_THOROUGH") != "1",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ours")


def pytest_xdist_auto_num_workers(config):
    """Run one process more than there are cores, because slow tests wait for programs."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_cores if config.option.markexpr == "not slow" else n_cores + 1


# A file is run by one process: those that take longest begin, so that all processes end at the same time.
LONGEST = (
    "service/test_page.py",
    "service/test_insight.py",
    "test_docs.py",
    "test_site.py",
    "hashers/test_promises.py",
    "indexes/engines/test_gpu.py",
    "cli/test_process.py",
    "test_examples.py",
    "collection/test_interrupts.py",
    "service/test_process.py",
    "collection/stores/test_postgres.py",
    "indexes/engines/test_milvus.py",
    "streams/test_kill.py",
    "crash/test_kill.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with the longest files, then those that have slow tests: quick ones fill the end."""
    tests = Path(__file__).parent / "tests"
    place = {tests / name: i for i, name in enumerate(LONGEST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (place.get(item.path, len(place)), item.path not in slow))


def pytest_terminal_summary(terminalreporter):
    """Say why tests were skipped, in one line per reason, before the list of those that failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, n_tests in Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped).most_common():
        terminalreporter.write_line(f"{n_tests} skipped: {reason}")


@pytest.fixture
def few_components(monkeypatch):
    """Give HROH 128 components by default, not 2048, which only take time."""
    from onlinehash import HROH

    monkeypatch.setitem(HROH.__init__.__kwdefaults__, "n_components", 128)


@pytest.fixture
def few_widths(monkeypatch):
    """Check indexes with the narrowest and the widest codes only: their own tests check FlatIndex with all."""
    monkeypatch.setattr("onlinehash.checks.index._N_BITS", (5, 72))


@pytest.fixture(autouse=True)
def examples_take_little_time(request):
    """Run the examples of docstrings with few components and few widths."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("few_components")
        request.getfixturevalue("few_widths")
