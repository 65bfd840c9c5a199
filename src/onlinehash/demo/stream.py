"""The demo of ``onlinehash serve --demo``: a stream of images that the page steps through, and what it plots."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import sleep
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onlinehash.collection import Collection
from onlinehash.datasets import Dataset, Split, load_dataset
from onlinehash.demo.run import published_hcoh, small_hroh
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.hashers import OnlineHasher
from onlinehash.metrics import Ranking, mean_average_precision
from onlinehash.service.api_keys import ApiKeys, demand_key
from onlinehash.service.problems import Problem
from onlinehash.types import Batch

_IMAGES = {"digits": (8, 8), "mnist": (28, 28)}
_MAX_ITEMS, _MAX_QUERIES = 3000, 200
_FIRST_CLASSES, _NEXT_CLASS = 3, 50  # one more class after every 50 items
_START, _STEP = 60, 10  # items at the start, and per point of the curve up to there
_MAX_STEPS = 100
_PATIENCE, _MOMENT = 1000, 0.002
_SHOWN = 16  # newest items on the page
_RACE_STEP = 25  # instances between two measurements of the race

State = dict[str, Any]


class Demo:
    """A collection filled by a stream of images, and the curve of its quality so far.

    The stream starts with a few classes; others join later. Quality is the mAP of held-out queries of all classes: with
    the encoder in use, and with the encoder that a refresh would make now.

    Parameters
    ----------
    collection : Collection
        Empty, with the hasher :func:`~onlinehash.demo.run.small_hroh`.
    dataset : Dataset
        A data set of images.

    Examples
    --------
    >>> with open_demo("digits") as demo:
    ...     demo.state()["position"], demo.step(40)["points"][-1]["n"]
    (60, 100)
    """

    def __init__(self, collection: Collection, dataset: Dataset) -> None:
        if dataset.name not in _IMAGES:
            raise InvalidInputError(f"dataset={dataset.name!r} has no pictures; use {', '.join(_IMAGES)}.")
        self.collection, self.dataset = collection, dataset
        self._shape = _IMAGES[dataset.name]
        split = _head(dataset.split())
        self._stream, self._database, self._queries = _as_classes_join(split.stream), split.database, split.queries
        self.race = Race(split)
        self._lock = Lock()
        self._position = 0
        self._points: list[State] = []
        self._first_seen: dict[int, int] = {}
        self._used: tuple[int, float] | None = None
        self._fill()

    def state(self) -> State:
        """Return the data set and all measurements; measure again if the codes were refreshed since."""
        with self._lock:
            encoder = self.collection.encoder
            if encoder is not None and encoder.version != self._points[-1]["version"]:
                self._points.append(self._measure())
            return self._state(0) | self._unseen()

    def step(self, n_items: int) -> State:
        """Add the next items of the stream; return the new measurements."""
        with self._lock:
            n_points = len(self._points)
            self._add(n_items)
            return self._state(n_points)

    def reset(self) -> State:
        """Start over with the first items and a new hasher."""
        with self._lock:
            self.collection.delete(range(_STEP, len(self._stream.X)), missing="ignore")
            self._position, self._points, self._first_seen, self._used = 0, [], {}, None
            self._store(_STEP)
            # Deleted items stay learned until the hasher is replaced.
            self.collection.change_hasher(small_hroh())
            self._points.append(self._measure())
            self._fill()
            return self._state(0) | self._unseen()

    def _fill(self) -> None:
        while self._position < _START:
            self._add(_STEP)

    def _add(self, n_items: int) -> None:
        if self._position < len(self._stream.X):
            self._store(n_items)
            self._points.append(self._measure())

    def _store(self, n_items: int) -> None:
        X, y = self._stream.take(slice(self._position, self._position + n_items))
        ids = range(self._position, self._position + len(X))
        for id, label in zip(ids, y.tolist(), strict=True):
            self._first_seen.setdefault(label, id)
        self.collection.upsert(ids, X, y, [self._payload(row) for row in ids])
        self._position += len(X)
        for _ in range(_PATIENCE):  # so that the next measurement does not depend on the speed of a refresh
            if not self.collection.stats().refreshing:
                break
            sleep(_MOMENT)

    def _measure(self) -> State:
        used, now = self.collection.encoder, self.collection.hasher.snapshot()
        assert used is not None, "labelled items make the first encoder at once"
        if self._used is None or self._used[0] != used.version:
            self._used = used.version, self._quality(used)
        fresh = self._used[1] if now.version == used.version else self._quality(now)
        return {"n": self._position, "version": used.version, "map": self._used[1], "fresh": fresh}

    def _quality(self, encoder: Encoder) -> float:
        (X, y), (queries, labels) = self._database, self._queries
        return round(mean_average_precision(encoder.encode(queries), labels, encoder.encode(X), y), 4)

    def _unseen(self) -> State:
        """Return a query of a class that joins midway, whose code is shown before and after."""
        labels = np.unique(self._queries.y)
        label = int(labels[len(labels) // 2])
        X = self._queries.X[np.argmax(self._queries.y == label)]
        payload = {
            "title": f"A {self.dataset.class_names[label]} that is never stored",
            "image": picture(X.reshape(self._shape)),
        }
        return {"unseen": {"id": "unseen", "labels": label, "vectors": X.tolist(), "payload": payload}}

    def _payload(self, row: int) -> State:
        return {"image": picture(self._stream.X[row].reshape(self._shape))}

    def _state(self, from_point: int) -> State:
        rows = range(self._position - 1, max(-1, self._position - 1 - _SHOWN), -1)
        newest = [{"id": row, "labels": int(self._stream.y[row]), "payload": self._payload(row)} for row in rows]
        return {
            "dataset": self.dataset.name,
            "description": self.dataset.description,
            "shape": self._shape,
            "position": self._position,
            "n_stream": len(self._stream.X),
            "n_classes": len(np.unique(self._stream.y)),
            "first_seen": [{"label": label, "n": n} for label, n in self._first_seen.items()],
            "arrived": newest,
            "points": self._points[from_point:],
        }


class Race:
    """HCOH and HROH on the same stream, sorted by class, measured on all classes seen so far.

    Points are computed on first use and kept.

    Parameters
    ----------
    split : Split
        Its stream is learned in the order of the classes; database and queries give the mAP.

    Examples
    --------
    >>> from onlinehash.datasets import load_dataset
    >>> race = Race(load_dataset("digits").split())
    >>> race.n_points, race.points(0, 2)[-1]["n"]
    (60, 50)
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._stream = split.stream.take(np.argsort(split.stream.y, kind="stable"))
        self._learners: dict[str, OnlineHasher] = {"hcoh": published_hcoh(split), "hroh": small_hroh()}
        self._points: list[State] = []
        self._shuffled: float | None = None
        self._lock = Lock()
        self.n_points = -(-len(self._stream.X) // _RACE_STEP)

    def points(self, start: int, n_points: int) -> list[State]:
        """Return some points: instances learned, the current class, and the mAP of each hasher."""
        with self._lock:
            while len(self._points) < min(start + n_points, self.n_points):
                self._points.append(self._advance(len(self._points) * _RACE_STEP))
            return self._points[start : start + n_points]

    def shuffled(self) -> float:
        """Return the mAP that HCOH reaches on the same instances in random order."""
        with self._lock:
            if self._shuffled is None:
                learner = published_hcoh(self._split).partial_fit(*self._split.stream)
                seen = np.unique(self._stream.y)
                self._shuffled = float(np.mean(list(self._measure(learner, seen).values())))
            return self._shuffled

    def _advance(self, start: int) -> State:
        X, y = self._stream.take(slice(start, start + _RACE_STEP))
        n_seen = start + len(X)
        seen = np.unique(self._stream.y[:n_seen])
        point: State = {"n": n_seen, "label": int(y[-1])}
        for name, learner in self._learners.items():
            by_class = self._measure(learner.partial_fit(X, y), seen)
            point[name] = {"map": round(float(np.mean(list(by_class.values()))), 4), "by_class": by_class}
        return point

    def _measure(self, learner: OnlineHasher, seen: NDArray[np.int64]) -> dict[int, float]:
        """Return the mAP per class, over the queries and items of the classes seen."""
        encoder = learner.snapshot()
        queries, database = (
            batch.take(np.isin(batch.y, seen)) for batch in (self._split.queries, self._split.database)
        )
        ranking = Ranking(encoder.encode(queries.X), queries.y, encoder.encode(database.X), database.y)
        averages = ranking.average_precision()
        return {int(label): round(float(averages[queries.y == label].mean()), 4) for label in seen}


@contextmanager
def open_demo(dataset: str | None = None) -> Iterator[Demo]:
    """Yield the demo of a data set, in a temporary collection.

    Parameters
    ----------
    dataset : str, optional
        By default MNIST if it is on this machine, else the digits of scikit-learn.
    """
    try:
        data = load_dataset(dataset or "mnist")
    except DataNotFoundError:
        if dataset is not None:
            raise
        data = load_dataset("digits")
    with (
        TemporaryDirectory(prefix="onlinehash") as folder,
        Collection.open(Path(folder) / "demo.oh", small_hroh(), 40) as collection,
    ):
        yield Demo(collection, data)


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    n: Annotated[int, msgspec.Meta(ge=1, le=_MAX_STEPS)] = 10


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    n: Annotated[int, msgspec.Meta(ge=1, le=_MAX_STEPS)] = 1


def convert(kind: Any, query: dict[str, str]) -> Any:
    """Return what a query string describes."""
    try:
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem.of_decoding(error, b"") from None


def make_demo_routes(demo: Demo, keys: ApiKeys) -> list[Route]:
    """Return the routes of the demo page, which are not part of the OpenAPI document."""

    def race(asked: State) -> State:
        part = convert(_Part, asked)
        points = demo.race.points(part.start, part.n)
        return {"n_points": demo.race.n_points, "shuffled": demo.race.shuffled(), "points": points}

    def route(path: str, answer: Callable[[State], State], method: str = "GET") -> Route:
        def respond(request: Request) -> Response:
            demand_key(request, keys, write=method == "POST")
            return JSONResponse(answer(dict(request.query_params)))

        return Route(path, respond, methods=[method])

    return [
        Route("/demo.json", lambda request: JSONResponse(True)),  # overrides the file that says that there is no demo
        route("/api/v1/demo", lambda asked: demo.state()),
        route("/api/v1/demo/step", lambda asked: demo.step(convert(_Step, asked).n), "POST"),
        route("/api/v1/demo/reset", lambda asked: demo.reset(), "POST"),
        route("/api/v1/demo/race", race),
    ]


def picture(pixels: NDArray[np.floating]) -> str:
    """Return pixels between 0 and 1 as a PNG in a data URL."""
    grey = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _head(split: Split) -> Split:
    """Return a part of a split, small enough to be measured while the page is open."""
    stream, database = (batch.take(slice(_MAX_ITEMS)) for batch in (split.stream, split.database))
    some = np.sort(np.random.default_rng(0).permutation(len(split.queries.X))[:_MAX_QUERIES])
    return replace(split, stream=stream, database=database, queries=split.queries.take(some))


def _as_classes_join(batch: Batch) -> Batch:
    """Return a batch ordered so that it starts with a few classes and the others join one by one."""
    waiting = list(range(len(batch.y)))
    labels = np.unique(batch.y).tolist()
    order: list[int] = []
    while waiting:
        n_joined = _FIRST_CLASSES + max(0, len(order) - _START + _NEXT_CLASS) // _NEXT_CLASS
        joined = set(labels[:n_joined])
        place = next((place for place, row in enumerate(waiting) if batch.y[row] in joined), 0)
        order.append(waiting.pop(place))
    return batch.take(order)
