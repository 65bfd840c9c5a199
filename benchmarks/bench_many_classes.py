"""What codes of HROH are worth with more than a thousand classes, and what it costs to make them.

Text of many classes that a machine may have, each embedded by ``use``: the names and one-line descriptions of Debian's
packages that ``apt-cache`` knows, with the source packages they are built from as classes (those of at least 5), and
the annotations of symbols in 17 languages, from the package cldr-annotations-full of npm, if the variable
``CLDR_ANNOTATIONS`` names its folder. Of each class 60 % of the texts are learned from, at most 12; one of the others
is a query, the rest are searched. Beside codes: the vectors, and the class that HROH gives the highest score.

Cost: one row of 384 features is encoded, with random weights of more and more classes.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.bench_text import packages
from benchmarks.measure import Row, interleaved
from onlinehash import HROH, Encoder
from onlinehash.embedders import make_embedder
from onlinehash.encoders.shortlist import MOST_SCORED_CLASSES, Shortlist
from onlinehash.experiments.references import cosine_quality
from onlinehash.metrics import Ranking

MIN_TEXTS, MAX_TEXTS, MAX_LEARNED, N_QUERIES = 5, 16, 12, 1000
LANGUAGES = ["ar", "ca", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sv", "th", "tr", "zh"]
CODE_LENGTHS = (16, 32, 64, 128)
Array = NDArray[Any]
Texts = dict[str, list[str]]
"""Texts by class."""


def sources() -> Texts:
    """Return names and descriptions of packages by the source they are built from."""
    texts: Texts = defaultdict(list)
    for fields in packages():
        if "Package" in fields and "Description" in fields:
            source = fields.get("Source", fields["Package"]).split(" ")[0]
            texts[source].append(f"{fields['Package']}: {fields['Description']}")
    return texts


def symbols() -> Texts:
    """Return what symbols are called in several languages."""
    texts: Texts = defaultdict(list)
    folder = os.environ.get("CLDR_ANNOTATIONS")
    for language in LANGUAGES if folder else ():
        path = Path(str(folder), "annotations", language, "annotations.json")
        for symbol, names in json.loads(path.read_text("utf-8"))["annotations"]["annotations"].items():
            texts[symbol].append(f"{' '.join(names.get('tts', []))}; {', '.join(names.get('default', []))}")
    return texts


def quality(source: str, texts: Texts, n_classes: int) -> list[Row]:
    rng, embed = np.random.default_rng(0), make_embedder("use")
    names = [name for name in sorted(texts) if len(texts[name]) >= MIN_TEXTS]
    learned, queries, items = list[tuple[str, int]](), list[tuple[str, int]](), list[tuple[str, int]]()
    for number, name in enumerate(rng.permutation(names)[:n_classes].tolist()):
        own = [(text, number) for text in rng.permutation(sorted(texts[name]))[:MAX_TEXTS].tolist()]
        n_learned = min(MAX_LEARNED, 6 * len(own) // 10)
        learned += own[:n_learned]
        queries += own[n_learned : n_learned + 1]
        items += own[n_learned + 1 :]
    order = rng.permutation(len(learned))
    parts = [[learned[i] for i in order], queries[:N_QUERIES], items]
    (X, y), (Q, q), (D, d) = ((embed([text for text, _ in part]), np.array([n for _, n in part])) for part in parts)
    what, rows = f"{source}, {len(queries)} classes", []

    def add(name: str, meaning: str, value: float) -> None:
        rows.append(Row(f"{what}, {name}", value, value, value, meaning, "-"))

    add("vectors by cosine", "mAP of new texts", cosine_quality(Q, q, D, d, map_at=None, precision_at=1)[0])
    hasher = HROH(CODE_LENGTHS[0], random_state=0).partial_fit(X, y)
    for n_bits in CODE_LENGTHS:
        encoder = hasher.with_bits(n_bits).snapshot()
        for name, each in {"HROH": encoder, "HROH, linear": replace(encoder, sharpness=0.0, shortlist=None)}.items():
            value = Ranking(each.encode(Q), q, each.encode(D), d).mean_average_precision()
            add(f"{name}, {n_bits} bits", "mAP of new texts", value)
    scores, every = encoder.class_scores(Q), encoder.features.transform(Q) @ encoder.weights + encoder.intercept
    assert encoder.classes is not None
    add("HROH", "accuracy of the highest score", float(np.mean(np.array(encoder.classes)[scores.argmax(axis=1)] == q)))
    add(
        "HROH",
        "rows whose best class is on the shortlist",
        float(np.mean(scores.argmax(axis=1) == every.argmax(axis=1))),
    )
    return rows


def cost() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 384), np.float32)
    features = HROH(32, random_state=0).partial_fit(X, np.arange(300) % 2).snapshot().features
    encoders = {n: random_encoder(n, features, rng) for n in (100, 1000, 10_000)}
    with threadpool_limits(1):
        seconds = interleaved({str(n): partial(encode_each, each, X[:100]) for n, each in encoders.items()}, rounds=7)
    rows = []
    for n in (1000, 10_000):
        ratios = [slow / few for slow, few in zip(seconds[str(n)], seconds["100"], strict=True)]
        bar = "at most 3" if n == 10_000 else "-"
        rows.append(Row.of(f"one row, {n} classes", ratios, "time / that with 100 classes", bar))
    return rows


def random_encoder(n_classes: int, features: Any, rng: np.random.Generator) -> Encoder:
    weights = rng.standard_normal((features.n_outputs, n_classes), np.float32)
    intercept, words = np.zeros(n_classes, np.float32), rng.choice(np.array([-1, 1], np.int8), (n_classes, 32))
    shortlist = None
    if n_classes > MOST_SCORED_CLASSES:
        shortlist = Shortlist.fit(weights, intercept, lambda columns: weights.T @ (weights @ columns), seed=0)
    return Encoder(weights, intercept, features, codewords=words, sharpness=3.0, shortlist=shortlist)


def encode_each(encoder: Encoder, rows: Array) -> None:
    for row in rows:
        encoder.encode(row[None])


def run() -> list[Row]:
    rows = cost()
    for source, texts, sizes in (("packages", sources(), (1102, 1512)), ("symbols", symbols(), (1102, 1966))):
        rows += [row for n_classes in sizes if texts for row in quality(source, texts, n_classes)]
    return rows
