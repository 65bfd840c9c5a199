"""Digest of the source that determines a run: the runner and the metrics, its hasher and its data set.

Imports inside this package are followed statically from the modules of a run; a name that a package only re-exports is
followed to the module that defines it. Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from onlinehash.datasets import dataset_names
from onlinehash.experiments.custom import class_file
from onlinehash.experiments.references import REFERENCES
from onlinehash.hashers import HASHERS

_ROOT = Path(__file__).parents[2]
_EXPERIMENTS = "onlinehash.experiments"
_NOT_FOLLOWED = {
    "onlinehash.hashers",  # registries
    "onlinehash.datasets",
    f"{_EXPERIMENTS}.custom",  # determine some runs only: see source_digest
    f"{_EXPERIMENTS}.own_data",
    f"{_EXPERIMENTS}.references",
    f"{_EXPERIMENTS}.plan",  # have no influence on a number
    f"{_EXPERIMENTS}.results",
    "onlinehash.exceptions",
    "onlinehash._files",
    "onlinehash.hashers._saving",
}


@cache
def source_digest(hasher: str, dataset: str) -> str:
    """Return the digest of the source that determines the runs of a hasher on a data set.

    The file of a user's own class is part of the configuration of its runs, and not of this digest.
    """
    modules = [f"{_EXPERIMENTS}.run"]
    modules.append("onlinehash.datasets._catalogue" if dataset in dataset_names() else f"{_EXPERIMENTS}.own_data")
    if hasher in REFERENCES:
        modules.append(REFERENCES[hasher].__module__)
    elif hasher in HASHERS:
        modules.append(HASHERS[hasher].__module__)
    else:
        path = class_file(hasher)
        modules += [f"{_EXPERIMENTS}.custom", *([] if path is None else _imported(path))]
    digest = hashlib.sha256()
    for module in sorted(_closure(modules)):
        digest.update(f"{module}\n{_code(_file(module).read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()[:16]


def _closure(modules: Iterable[str]) -> set[str]:
    """Return modules and all that they import, directly or not."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(_file(module))
    return found


@cache
def _imported(path: Path) -> frozenset[str]:
    """Return the modules of this package that a file imports and that are followed."""
    homes = {_home(module, name) for module, name, _ in _imports(path.read_bytes())}
    return frozenset(module for module in homes if _file(module).is_file()) - _NOT_FOLLOWED


def _home(module: str, name: str) -> str:
    """Return the module in which a name is defined that is imported from a module or a package."""
    if _file(f"{module}.{name}").is_file():
        return f"{module}.{name}"
    path = _file(module)
    if path.name == "__init__.py":
        for source, original, bound in _imports(path.read_bytes()):
            if bound == name:
                return _home(source, original)
    return module


@cache
def _imports(text: bytes) -> list[tuple[str, str, str]]:
    """Return module, name and local name of all that a source file imports from this package."""
    found: list[tuple[str, str, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):  # never relative in this package
            found += ((str(node.module), alias.name, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            found += ((alias.name, "*", "*") for alias in node.names)
    return [names for names in found if f"{names[0]}.".startswith("onlinehash.")]


def _file(module: str) -> Path:
    path = _ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _code(text: str) -> str:
    """Return a source file without comments, docstrings and blank lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            for number in range(node.lineno - 1, node.end_lineno):
                lines[number] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())
