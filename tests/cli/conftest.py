from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from onlinehash.cli import app
from onlinehash.datasets import Split, load_dataset

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def split() -> Split:
    return load_dataset("digits").split()


@pytest.fixture
def folder(tmp_path: Path, split: Split, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the digits as files: X, y to learn, D, dy to search, Q, qy to ask."""
    monkeypatch.chdir(tmp_path)
    for names, batch in ((("X", "y"), split.stream), (("D", "dy"), split.database), (("Q", "qy"), split.queries)):
        np.save(f"{names[0]}.npy", batch.X)
        np.save(f"{names[1]}.npy", batch.y)
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Run a command line, given as one string, and demand the exit code."""

    def call(line: str, code: int = 0, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(app, shlex.split(line), input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def model(folder: Path, run: Run) -> str:
    run("learn X.npy y.npy --method hcoh --out model.oh")
    return "model.oh"
