"""Settings that must be there before libraries are imported, and modules that cannot be imported here."""

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side, one process per core
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that tests start compiles the package
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # else it breaks programs that tests start by a fork

# Files of tests are in memory where there is plenty of it: on a disk, each commit waits for milliseconds.
memory = Path("/dev/shm")
if "TMPDIR" not in os.environ and memory.is_dir() and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
    tempfile.tempdir = str(memory) if shutil.disk_usage(memory).free > 8 << 30 else None

collect_ignore = ["tests/smoke.py"]  # a program, which a test runs
collect_ignore_glob = [] if find_spec("cupy") else ["src/onlinehash/*/engines/gpu*.py"]
