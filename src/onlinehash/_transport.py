"""HTTP requests that are repeated after a failure, with JSON or array bodies, for both clients."""

from __future__ import annotations

import asyncio
import io
import json
import time
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from onlinehash._call import LONGEST_PAUSE, Call, Calls, pauses
from onlinehash._validation import check_non_negative_int, check_positive
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

T = TypeVar("T")

_NPY = "application/x-npy"
_RETRIED = {408, 429, 502, 503, 504}
_ERRORS = {"unknown-id": UnknownIdError, "over-limit": OverLimitError, "invalid-input": InvalidInputError}


class Settings:
    """The address of a service, and when a request is sent again; the parameters are those of the clients."""

    def __init__(
        self, url: str, key: str | None, timeout: float, retries: int, collection: str | None, options: dict[str, Any]
    ) -> None:
        check_positive("timeout", timeout)
        self._retries = check_non_negative_int("retries", retries)
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url={url!r} does not begin with http:// or https://.")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.options = {
            **options,
            "base_url": url,
            "headers": {**headers, **options.get("headers", {})},
            "timeout": options.get("timeout", timeout),
        }
        self._url = url
        self._root = "/api/v1" if collection is None else f"/api/v1/collections/{quote(collection, safe='')}"

    def request(self, call: Call, n_failed: int) -> dict[str, Any]:
        """Return the arguments of a request."""
        content, headers = _content(call.body if call.retry_body is None or not n_failed else call.retry_body)
        if call.arrays:
            headers["Accept"] = f"{_NPY}, application/json"
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        return {
            "method": call.method,
            "url": self._root + call.path,
            "content": content,
            "headers": headers,
            "params": call.query,
        }

    def pause(self, outcome: httpx.Response | httpx.TransportError, n_failed: int, pause: float) -> float | None:
        """Return the seconds until a request is sent again, or None if it has its answer; raise if it failed."""
        if isinstance(outcome, httpx.TransportError):
            if n_failed >= self._retries:
                raise ServiceError(
                    f"{self._url} gives no answer after {n_failed + 1} tries "
                    f"({type(outcome).__name__}: {outcome}). Does it run?"
                ) from outcome
            return pause
        if outcome.is_success:
            return None
        if outcome.status_code not in _RETRIED or n_failed >= self._retries:
            raise _error(outcome)
        seconds = outcome.headers.get("Retry-After", "")
        return max(pause, min(float(seconds), LONGEST_PAUSE) if seconds.isdecimal() else 0.0)


class Transport(Settings):
    """Connections to a service."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._http = httpx.Client(**self.options)
        self.base_url = self._http.base_url

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def run(self, calls: Calls[T]) -> T:
        """Send the requests of a call, and return its result."""
        with closing(calls):
            try:
                call = next(calls)
                while True:
                    try:
                        answer = self._send(call)
                    except OverLimitError as error:
                        call = calls.throw(error)
                    else:
                        call = calls.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result

    def _send(self, call: Call) -> Any:
        """Return the JSON answer to a request."""
        time.sleep(call.pause)
        for n_failed, shortest in enumerate(pauses()):
            outcome: httpx.Response | httpx.TransportError
            try:
                with self._http.stream(**self.request(call, n_failed)) as outcome:
                    if call.into is None or not outcome.is_success:
                        outcome.read()
                    else:
                        call.into.start()
                        for piece in outcome.iter_bytes():
                            call.into.write(piece)
            except httpx.TransportError as error:
                outcome = error
            pause = self.pause(outcome, n_failed, shortest)
            if pause is None:
                assert isinstance(outcome, httpx.Response)
                return _parsed(outcome) if call.into is None else outcome.headers
            time.sleep(pause)
        raise AssertionError("pauses never end")


class AsyncTransport(Settings):
    """Connections to a service, for use in an event loop."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._http = httpx.AsyncClient(**self.options)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def run(self, calls: Calls[T]) -> T:
        """Send the requests of a call, and return its result."""
        with closing(calls):
            try:
                call = next(calls)
                while True:
                    try:
                        answer = await self._send(call)
                    except OverLimitError as error:
                        call = calls.throw(error)
                    else:
                        call = calls.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result

    async def _send(self, call: Call) -> Any:
        """Return the JSON answer to a request."""
        await asyncio.sleep(call.pause)
        for n_failed, shortest in enumerate(pauses()):
            outcome: httpx.Response | httpx.TransportError
            try:
                async with self._http.stream(**self.request(call, n_failed)) as outcome:
                    if call.into is None or not outcome.is_success:
                        await outcome.aread()
                    else:
                        call.into.start()
                        async for piece in outcome.aiter_bytes():
                            call.into.write(piece)
            except httpx.TransportError as error:
                outcome = error
            pause = self.pause(outcome, n_failed, shortest)
            if pause is None:
                assert isinstance(outcome, httpx.Response)
                return _parsed(outcome) if call.into is None else outcome.headers
            await asyncio.sleep(pause)
        raise AssertionError("pauses never end")


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
            raise _error(answer) from error
    file = io.BytesIO(answer.content)
    array = np.load(file, allow_pickle=False)
    return {**json.loads(file.read()), "array": array}


def _error(answer: httpx.Response) -> OnlineHashError:
    try:
        problem = answer.json()
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        problem, detail = {}, _strange(answer)
    kind = str(problem.get("type", "")).rpartition(":")[2]
    if kind in _ERRORS:
        return _ERRORS[kind](detail)
    return ServiceError(f"{answer.status_code} {answer.reason_phrase}: {detail}", answer.status_code, problem)


def _strange(answer: httpx.Response) -> str:
    """Say that an answer is not one of a service; plain text is shown, a page for a browser is not."""
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    if media == "text/plain":
        return answer.text[:200]
    return (
        f"{answer.url} answers with {media or 'nothing'}, not with JSON as the service does. "
        "Check the address, and the proxy before the service."
    )
