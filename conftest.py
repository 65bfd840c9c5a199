"""Settings of libraries that must be there before they are imported."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side, one process per core
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # else it breaks programs that tests start by a fork
