"""Handwritten digits, 8 x 8: comes with scikit-learn, needs no file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._origin import Content, Origin, checked_content
from onlinehash.datasets.protocols import ProtocolSizes


class _ScikitLearn(Origin):
    """Read the digits that scikit-learn carries; pixels / 16."""

    @property
    def wanted(self) -> str:
        return "scikit-learn"

    def find(self, folders: Sequence[Path]) -> Path | None:
        module = find_spec("sklearn")
        return Path(module.origin).parent if module and module.origin else None

    def read(self, path: Path) -> Content:
        X, y = import_module("sklearn.datasets").load_digits(return_X_y=True)
        return checked_content(X / np.float32(16), y, (), path, "scikit-learn")


DIGITS = Entry(
    name="digits",
    description="handwritten digits of 8 x 8 pixels, pixels / 16",
    licence="CC BY 4.0 (UCI, Optical Recognition of Handwritten Digits)",
    n_samples=1797,
    n_features=64,
    n_classes=10,
    sizes=ProtocolSizes(queries_per_class=20, n_stream=1500, learning_rate=0.2, precision_at=100),
    origins=(_ScikitLearn(),),
    obtain="Run: pip install scikit-learn.",
)
