"""Tests run side by side, a process a core: products of matrices keep to one thread each."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
