"""Run a method along a stream and evaluate the codes it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.codebooks import ClassTable, hadamard_codewords, make_codebook
from onlinehash.codes import hamming_distances, pack_signs
from onlinehash.datasets import Dataset, Split
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.experiments.custom import Frozen, Learner, make_custom
from onlinehash.experiments.own_data import find_dataset
from onlinehash.experiments.plan import Run, is_custom
from onlinehash.experiments.references import REFERENCES, Reference, ReferenceEncoder, cosine_quality, takes_bits
from onlinehash.experiments.results import Result
from onlinehash.experiments.streams import chunks, labelled_rows, make_stream, unseen_classes
from onlinehash.hashers import HASHERS
from onlinehash.hashers._class_bits import choose_sharpness
from onlinehash.metrics import AsymmetricRanking, Curve, Prequential, Ranking, checkpoints
from onlinehash.types import Batch, Features, Labels


@dataclass(frozen=True)
class Quality:
    """Retrieval quality of the codes of one encoder.

    ``mean_average_precision`` is mAP@k with k the split's ``map_at``, if it has one, and then divided by the relevant
    items found, as published; ``precision`` and ``recall`` are those of the first ``precision_at`` items.

    Examples
    --------
    >>> Quality(mean_average_precision=0.9, precision=0.95, recall=0.3).precision
    0.95
    """

    mean_average_precision: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Point:
    """One point of a learning curve: number of instances, quality, and CPU seconds of learning so far.

    Examples
    --------
    >>> Point(100, Quality(0.5, 0.6, 0.2), learning_seconds=0.01).quality.mean_average_precision
    0.5
    """

    n_instances: int
    quality: Quality
    learning_seconds: float


def evaluate(encoder: Frozen, split: Split, *, ranking: str = "hamming") -> Quality:
    """Encode the queries and the database of a split and evaluate the ranking by Hamming or asymmetric distance.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> hasher = HCOH(16, random_state=0).partial_fit(*split.stream)
    >>> evaluate(hasher.snapshot(), split).mean_average_precision > 0.7
    True
    """
    return _quality(_encoded(encoder, split, ranking), split)


def learning_curve(
    hasher: Learner, split: Split, points: Sequence[int], *, ranking: str = "hamming"
) -> Iterator[Point]:
    """Learn the stream of a split and evaluate the codes after each of the given numbers of instances.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> [point.n_instances for point in learning_curve(HCOH(16, random_state=0), split, [10, 1000])]
    [10, 1000]
    """
    seconds, done = 0.0, 0
    for n in map(int, points):
        start = process_time()
        hasher.partial_fit(split.stream.X[done:n], split.stream.y[done:n])
        seconds += process_time() - start
        done = n
        yield Point(n, evaluate(hasher.snapshot(), split, ranking=ranking), seconds)


def prequential_curve(
    hasher: Learner, stream: Batch, points: Sequence[int], *, k: int = 10
) -> Iterator[tuple[int, Prequential]]:
    """Search for every item of a stream among the earlier ones, then learn from it; yield the quality of each block.

    The items between two points are the queries of one block. They are searched among all items before the block, coded
    by what was learned from these, and then learned from.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> stream = load_dataset("digits").split().stream
    >>> (n, quality), = prequential_curve(HCOH(16, random_state=0), stream, [100, 1500])
    >>> n, round(quality.precision, 1)
    (1500, 0.6)
    """
    done, (X, y) = 0, stream
    for n in map(int, points):
        queries, items = labelled_rows(X[done:n], y[done:n]), labelled_rows(X[:done], y[:done])
        if done and len(queries.y):
            quality, encoder = Prequential(k, window=n - done), hasher.snapshot()
            quality.search(encoder.encode(queries.X), queries.y, encoder.encode(items.X), items.y)
            yield n, quality
        hasher.partial_fit(X[done:n], y[done:n])
        done = n


def run(run: Run) -> Result:
    """Return the result of one run: learn, encode and evaluate, each timed in CPU seconds.

    If classes are left out of the stream, the metrics also have the mAP of three searches: ``seen_at_seen``
    (queries of seen classes among items of seen classes), ``unseen_at_unseen``, and ``unseen_at_all``, and, of
    ``open_world``, the quality of queries of seen, of unseen and of all classes among new items of all. Otherwise they
    have the quality among ``new_items``: those of the database that are not in the stream.

    Examples
    --------
    >>> result = run(Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0))
    >>> result["metrics"]["mean_average_precision"] > 0.7
    True
    """
    whole = _split(run)
    split = make_stream(_validating(whole, run.validation), run, run.seed)
    _warm_up(run, split)
    learner = make_learner(replace(run, n_bits=run.sharpened or run.n_bits), split)
    curve, learning_seconds = _learn(run, learner, split)
    start = process_time()
    encoder = sharpened(learner, run.n_bits, run.seed) if run.sharpened else learner.snapshot()
    sides = _encoded(encoder, split, run.ranking)
    if run.database_codes == "labels":
        sides = (*sides[:2], _codes_of_labels(learner, split.database.y), sides[3])
    elif run.database_codes == "candidates":
        sides = _among(sides, items=_candidates(sides[0], sides[2], len(whole.stream.y), run.seed))
    elif run.database_codes == "centred":
        queries, database = (_centred_codes(encoder, side.X) for side in (split.queries, split.database))
        sides = (queries, sides[1], database, sides[3])
    encoding_seconds = process_time() - start
    start = process_time()
    expected = _quality(sides, split)
    stable = _quality(sides, split, "stable") if _is_packed(sides[0]) else expected
    metrics = {**asdict(expected), "stable": asdict(stable), "map_at": split.map_at, "precision_at": split.precision_at}
    n_stream = len(whole.stream.y)
    has_new = n_stream < len(sides[3]) == len(split.database.y)
    new = _among(sides, items=slice(n_stream, None)) if has_new else None
    if run.unseen:
        metrics |= _unseen_quality(sides, new, split, unseen_classes(split.database.y, run.unseen, run.seed))
    elif new is not None:
        metrics["new_items"] = asdict(_quality(new, split))
    return {
        "n_instances": len(split.stream.y),
        "metrics": metrics,
        "curve": curve,
        "seconds": {
            "learning": learning_seconds,
            "encoding": encoding_seconds,
            "evaluation": process_time() - start,
        },
    }


def _learn(run: Run, learner: Learner, split: Split) -> tuple[dict[str, Any] | None, float]:
    """Learn the stream of a split; return the learning curve, if the run has one, and the CPU seconds of learning."""
    if not run.checkpoints:
        start = process_time()
        learner.partial_fit(*split.stream)
        return None, process_time() - start
    # The same points for all seeds, so that their mean is a curve.
    points = checkpoints(len(split.stream.X), run.checkpoints, seed=0).tolist()
    drawn, more, seconds = Curve(), {}, 0.0
    if run.queries == "stream":
        precisions, start = [], process_time()
        for n, quality in prequential_curve(learner, split.stream, points):
            drawn.add(n, quality.mean_average_precision)
            precisions.append(quality.precision)
        seconds, more = process_time() - start, {"precision_at_10": precisions}  # with the searches
    else:
        for point in learning_curve(learner, split, points, ranking=run.ranking):
            drawn.add(point.n_instances, point.quality.mean_average_precision)
            seconds = point.learning_seconds
    return asdict(drawn) | {"auc": drawn.auc(), "mean": drawn.mean()} | more, seconds


def _warm_up(run: Run, split: Split) -> None:
    """Learn a few rows with a discarded hasher, so that no timing includes the loading of compiled code."""
    if run.hasher not in HASHERS:
        return
    learner = make_learner(run, split)
    learner.partial_fit(split.stream.X[:200], split.stream.y[:200])
    learner.snapshot().encode(split.queries.X[:2])


def make_learner(run: Run, split: Split) -> Learner:
    """Return the untrained method of a run; preprocessing defaults to that of the split."""
    if run.inputs == "hroh":
        plain = replace(run, inputs="given", params={"preprocess": "running"} | run.params)
        return WithHROHFeatures(make_learner(plain, split), split.stream.X, run.seed)
    if is_custom(run.hasher):
        return make_custom(run.hasher, run.params, n_bits=run.n_bits, seed=run.seed, preprocess=split.preprocess)
    params: dict[str, Any] = {"preprocess": split.preprocess} | run.params
    if params.get("codebook") == "published":
        params["codebook"] = hadamard_codewords(np.unique(split.database.y).tolist(), run.n_bits, seed=run.seed)
    return make_method(run, params)


def make_method(run: Run, params: dict[str, Any]) -> Learner:
    """Return the hasher or the reference of a run, with parameters."""
    if takes_bits(run.hasher):
        params = {"n_bits": run.n_bits, "random_state": run.seed} | params
    if run.hasher in REFERENCES:
        return Reference(REFERENCES[run.hasher], **params)
    return HASHERS[run.hasher](**params)


class WithHROHFeatures:
    """Map rows as HROH does by default, then pass them to a learner: the unit row and 2048 Fourier features of it.

    Parameters
    ----------
    learner : Learner
    X : array, shape (n_samples, n_features)
        The stream, from whose first rows HROH takes its bandwidth.
    random_state : int
        Seed of the features.

    Examples
    --------
    >>> from onlinehash import LSH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> matched = WithHROHFeatures(LSH(16, preprocess="none", random_state=0), split.stream.X, random_state=0)
    >>> matched.partial_fit(*split.stream).snapshot().encode(split.queries.X).shape
    (200, 2)
    """

    def __init__(self, learner: Learner, X: Features, random_state: int) -> None:
        self.learner = learner
        hroh = HASHERS["hroh"](n_bits=8, preprocess="unit", random_state=random_state)
        # The bandwidth follows from the rows, whatever their labels.
        self.features: Any = hroh.partial_fit(X[:256], np.arange(len(X[:256])) % 2).snapshot().features

    def partial_fit(self, X: Features, y: Labels) -> WithHROHFeatures:
        """Learn from the next rows of the stream."""
        for rows in self._blocks(X):
            self.learner.partial_fit(self.features.transform(X[rows]), y[rows])
        return self

    def snapshot(self) -> Frozen:
        """Return an encoder of raw rows."""
        encode = self.learner.snapshot().encode
        return ReferenceEncoder(
            lambda X: np.concatenate([encode(self.features.transform(X[rows])) for rows in self._blocks(X)])
        )

    def _blocks(self, X: Features) -> Iterator[slice]:
        return chunks(X, 1 << 22, self.features.n_outputs)


Sides = tuple[NDArray[Any], Labels, NDArray[Any], Labels]
"""Codes and labels of the queries, then of the database.

The codes of a reference may be real features, and the query codes of an asymmetric ranking are soft.
"""


def _encoded(encoder: Frozen, split: Split, ranking: str) -> Sides:
    queries, database = split.queries, split.database
    if ranking == "asymmetric":
        if not isinstance(encoder, Encoder):
            raise InvalidInputError("Only encoders of hashers rank asymmetrically; leave out ranking='asymmetric'.")
        asked: NDArray[Any] = encoder.encode_asymmetric(queries.X)
    else:
        asking = encoder.for_queries if isinstance(encoder, Encoder | ReferenceEncoder) else encoder
        asked = asking.encode(queries.X)
    return asked, queries.y, encoder.encode(database.X), database.y


def _among(sides: Sides, queries: Any = slice(None), items: Any = slice(None)) -> Sides:
    """Return some of the queries and of the items."""
    return sides[0][queries], sides[1][queries], sides[2][items], sides[3][items]


def sharpened(learner: Learner, n_bits: int, seed: int) -> Encoder:
    """Return an encoder that takes bits as HROH does: sharpened scores of the classes combine codewords of the ladder.

    The scores are the smallest that the codewords of the method turn into its values.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> hasher = HCOH(16, random_state=0).partial_fit(*load_dataset("digits").split().stream)
    >>> sharpened(hasher, n_bits=8, seed=0).n_bits
    8
    """
    encoder, learned = learner.snapshot(), getattr(learner, "codewords_", None)
    if learned is None or not isinstance(encoder, Encoder):
        raise InvalidInputError("The method has no codewords_; leave out sharpened.")
    varied = np.ptp(learned, axis=0) > 0  # a bit that all codewords share says nothing of the class
    inverse = (np.linalg.pinv(learned * varied) * varied[:, np.newaxis]).astype(encoder.weights.dtype)
    intercept = None if encoder.intercept is None else encoder.intercept @ inverse
    classes = ClassTable(make_codebook("ladder", n_bits, seed))
    classes.admit(np.arange(len(learned)))
    words, sharpness = classes.targets(np.arange(len(learned))), choose_sharpness(len(learned), n_bits)
    made = replace(encoder, weights=encoder.weights @ inverse, intercept=intercept)
    return replace(made, codewords=words, sharpness=sharpness)


def _codes_of_labels(learner: Learner, labels: Labels) -> NDArray[np.uint8]:
    """Return the codewords of labels."""
    classes, words = getattr(learner, "classes_", None), getattr(learner, "codewords_", None)
    if classes is None or words is None:
        raise InvalidInputError("The method has no codewords_; leave out database_codes='labels'.")
    if missing := np.setdiff1d(labels, classes).tolist():
        raise InvalidInputError(
            f"Class {missing[0]} was not learned and has no codeword; use database_codes='function'."
        )
    order = np.argsort(classes)
    return pack_signs(words[order[np.searchsorted(classes, labels, sorter=order)]])


def _centred_codes(encoder: Frozen, X: Features) -> NDArray[np.uint8]:
    """Return the codes of rows whose real values are centred by their own mean."""
    if not isinstance(encoder, Encoder):
        raise InvalidInputError("Only encoders of hashers have values to centre; leave out database_codes='centred'.")
    values = encoder.project(X)
    return pack_signs(values - values.mean(axis=0))


def _candidates(queries: NDArray[Any], codes: NDArray[Any], n_learned: int, seed: int) -> NDArray[np.intp]:
    """Return the items near a pool of 500 learned items: the 500 nearest of those that are among the 10 of a query."""
    if not _is_packed(queries):
        raise InvalidInputError("Candidates are found by Hamming distance; leave out database_codes='candidates'.")
    pool = codes[np.random.default_rng([seed, 11]).permutation(n_learned)[:500]]
    asked = np.argsort(hamming_distances(queries, pool), axis=1, kind="stable")[:, :10]
    distances = hamming_distances(pool[np.unique(asked)], codes)
    return np.unique(np.argsort(distances, axis=1, kind="stable")[:, :500])


def _quality(sides: Sides, split: Split, ties: str = "expected") -> Quality:
    if not _is_packed(sides[2]):
        cuts: Any = {"map_at": split.map_at, "precision_at": split.precision_at, "denominator": split.denominator}
        return Quality(*cosine_quality(*sides, **cuts))
    ranking = Ranking(*sides, ties=ties) if _is_packed(sides[0]) else AsymmetricRanking(*sides)
    denominator = "possible" if split.map_at is None else split.denominator
    precision = ranking.mean_average_precision(split.map_at, denominator=denominator)
    return Quality(precision, ranking.precision_at(split.precision_at), ranking.recall_at(split.precision_at))


def _unseen_quality(sides: Sides, new: Sides | None, split: Split, unseen: Labels) -> dict[str, Any]:
    """Return the mAP of seen classes among seen, unseen among unseen, and unseen among all, and among new items."""
    asked, stored = np.isin(sides[1], unseen), np.isin(sides[3], unseen)
    searches: dict[str, tuple[Any, Any]] = {
        "seen_at_seen": (~asked, ~stored),
        "unseen_at_unseen": (asked, stored),
        "unseen_at_all": (asked, slice(None)),
    }
    found: dict[str, Any] = {
        name: _quality(_among(sides, *rows), split).mean_average_precision for name, rows in searches.items()
    }
    if new is not None:
        queries = {"seen": ~asked, "unseen": asked, "all": slice(None)}
        found["open_world"] = {name: asdict(_quality(_among(new, rows), split)) for name, rows in queries.items()}
    return found


def _is_packed(codes: NDArray[Any]) -> bool:
    return bool(codes.dtype == np.uint8)


def _split(run: Run) -> Split:
    """Return the split of a run, with what the run says of its measures."""
    split = _split_of(find_dataset(run.dataset, run.labels, run.n_queries), run.protocol, run.seed)
    precision_at = min(run.precision_at or split.precision_at, len(split.database.y))
    return replace(split, precision_at=precision_at, denominator=run.denominator)


def _validating(split: Split, n_queries: int | None) -> Split:
    """Return a split in which the end of the stream is searched for among the rest of it."""
    if n_queries is None:
        return split
    if n_queries >= len(split.stream.y):
        raise InvalidInputError(f"validation={n_queries} leaves nothing of a stream of {len(split.stream.y)} rows.")
    X, y = split.stream
    kept, held = Batch(X[:-n_queries], y[:-n_queries]), Batch(X[-n_queries:], y[-n_queries:])
    return replace(split, stream=kept, database=kept, queries=held)


@lru_cache(maxsize=1)
def _split_of(dataset: Dataset, protocol: str, seed: int) -> Split:
    """Return a split; the last one is cached, because runs with the same seed are consecutive."""
    return dataset.split(protocol, seed)
