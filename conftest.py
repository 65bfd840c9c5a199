"""Settings that must be there before libraries are imported, and modules that cannot be imported here."""

import os
from importlib.util import find_spec

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side, one process per core
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that tests start compiles the package
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # else it breaks programs that tests start by a fork

collect_ignore = ["tests/smoke.py"]  # a program, which a test runs
collect_ignore_glob = [] if find_spec("cupy") else ["src/onlinehash/*/engines/gpu*.py"]
