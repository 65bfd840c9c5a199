"""HTTP requests that are repeated after a failure, with JSON or array bodies, for both clients.

A call is a coroutine that asks one request after the other. What is sent when, and what an answer means, is the same
for both clients; they differ in how they wait. The one without an event loop waits in the thread itself, so that its
coroutines never suspend.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import IO, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_non_negative_int, check_positive
from onlinehash.embedders.images import image_type
from onlinehash.exceptions import (
    InvalidInputError,
    OnlineHashError,
    OverLimitError,
    ServiceError,
    UnknownIdError,
    needs_extra,
)

with needs_extra("httpx", "client"):
    import httpx

P = ParamSpec("P")
T = TypeVar("T")

_NPY = "application/x-npy"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds
_RETRIED = {408, 429, 502, 503, 504}
_ERRORS = {"unknown-id": UnknownIdError, "over-limit": OverLimitError, "invalid-input": InvalidInputError}


class Download:
    """A file that takes a long answer piece by piece, and its digest."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None]) -> None:
        self._file, self._progress = file, progress
        self.start()

    def start(self) -> None:
        """Begin from the first byte."""
        self._file.seek(0)
        self._file.truncate()
        self.digest = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        """Append a piece."""
        self._file.write(piece)
        self.digest.update(piece)
        self._progress(self._file.tell())


@dataclass(frozen=True, eq=False)
class Call:
    """A request, with JSON, an array or an image as its body."""

    method: str
    path: str
    body: dict[str, Any] | NDArray[Any] | bytes | None = None
    query: dict[str, str] | None = None
    key: str | None = None  # by which the service knows a change that it has applied already
    pause: float = 0.0  # seconds before it is sent
    arrays: bool = False  # whether its vectors or codes may come as an array, as "array"
    into: Download | None = None  # takes the content of the answer, of which then the headers are returned


def pauses() -> Iterator[float]:
    """Yield seconds to wait that double, each reduced at random so that clients do not return all at once."""
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, _LONGEST_PAUSE)


class Exchange:
    """The address of a service, and what is sent to it when; the parameters are those of the clients."""

    def __init__(
        self, url: str, key: str | None, timeout: float, retries: int, collection: str | None, options: dict[str, Any]
    ) -> None:
        check_positive("timeout", timeout)
        self._retries = check_non_negative_int("retries", retries)
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url={url!r} does not begin with http:// or https://.")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.base_url = url
        self.options = {
            **options,
            "base_url": url,
            "headers": {**headers, **options.get("headers", {})},
            "timeout": options.get("timeout", timeout),
        }
        self._root = "/api/v1" if collection is None else f"/api/v1/collections/{quote(collection, safe='')}"

    async def ask(self, call: Call) -> Any:
        """Send a request until it is answered, and return the answer; raise if it failed."""
        await self._sleep(call.pause)
        for n_failed, shortest in enumerate(pauses()):
            outcome = await self._send(call)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return _parsed(outcome) if call.into is None else outcome.headers
            if n_failed >= self._retries or getattr(outcome, "status_code", 503) not in _RETRIED:
                raise self._error(outcome, n_failed)
            wanted = outcome.headers.get("Retry-After", "") if isinstance(outcome, httpx.Response) else ""
            await self._sleep(max(shortest, min(float(wanted), _LONGEST_PAUSE) if wanted.isdecimal() else 0.0))
        raise AssertionError("pauses never end")

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _send(self, call: Call) -> httpx.Response | httpx.TransportError:
        raise NotImplementedError

    def _arguments(self, call: Call) -> dict[str, Any]:
        content, headers = _content(call.body)
        if call.arrays:
            headers["Accept"] = f"{_NPY}, application/json"
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        url = self._root + call.path
        return {"method": call.method, "url": url, "content": content, "headers": headers, "params": call.query}

    def _error(self, outcome: httpx.Response | httpx.TransportError, n_failed: int) -> OnlineHashError:
        if isinstance(outcome, httpx.Response):
            return _refusal(outcome)
        said = f"{type(outcome).__name__}: {outcome}"
        return ServiceError(f"{self.base_url} gives no answer after {n_failed + 1} tries ({said}). Does it run?")


class Transport(Exchange):
    """Connections to a service."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._http = httpx.Client(**self.options)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def run(
        self, call: Callable[Concatenate[Exchange, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a call."""
        try:
            call(self, *args, **kwargs).send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a call waits for nothing but requests")

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _send(self, call: Call) -> httpx.Response | httpx.TransportError:
        try:
            with self._http.stream(**self._arguments(call)) as answer:
                if call.into is None or not answer.is_success:
                    answer.read()
                else:
                    call.into.start()
                    for piece in answer.iter_bytes():
                        call.into.write(piece)
                return answer
        except httpx.TransportError as error:
            return error


class AsyncTransport(Exchange):
    """Connections to a service, for use in an event loop."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._http = httpx.AsyncClient(**self.options)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def run(
        self, call: Callable[Concatenate[Exchange, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Return the result of a call, to be awaited."""
        return call(self, *args, **kwargs)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _send(self, call: Call) -> httpx.Response | httpx.TransportError:
        try:
            async with self._http.stream(**self._arguments(call)) as answer:
                if call.into is None or not answer.is_success:
                    await answer.aread()
                else:
                    call.into.start()
                    async for piece in answer.aiter_bytes():
                        call.into.write(piece)
                return answer
        except httpx.TransportError as error:
            return error


def _content(body: dict[str, Any] | NDArray[Any] | bytes | None) -> tuple[bytes | None, dict[str, str]]:
    """Return the bytes of a body, and the header that names their type."""
    if body is None:
        return None, {}
    if isinstance(body, bytes):
        return body, {"Content-Type": image_type(body) or "image/png"}  # the service says if it is none
    if isinstance(body, np.ndarray):
        file = io.BytesIO()
        np.save(file, body, allow_pickle=False)
        return file.getvalue(), {"Content-Type": _NPY}
    try:
        return json.dumps(body, allow_nan=False).encode(), {"Content-Type": "application/json"}
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The request cannot be written as JSON: {error}.") from error


def _parsed(answer: httpx.Response) -> Any:
    """Return JSON; an array before it becomes its field "array"."""
    if answer.headers.get("Content-Type") != _NPY:
        try:
            return answer.json()
        except ValueError as error:
            raise _refusal(answer) from error
    file = io.BytesIO(answer.content)
    array = np.load(file, allow_pickle=False)
    return {**json.loads(file.read()), "array": array}


def _refusal(answer: httpx.Response) -> OnlineHashError:
    """Return the error that a refusal says; plain text is shown, a page for a browser is not."""
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    try:
        problem = answer.json()
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        problem = {}
        detail = (
            f"{answer.url} answers with {media or 'nothing'}, not with JSON as the service does. "
            "Check the address, and the proxy before the service."
        )
        if media == "text/plain":
            detail = answer.text[:200]
    kind = str(problem.get("type", "")).rpartition(":")[2]
    if kind in _ERRORS:
        return _ERRORS[kind](detail)
    return ServiceError(f"{answer.status_code} {answer.reason_phrase}: {detail}", answer.status_code, problem)
