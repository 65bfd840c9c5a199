"""HTTP requests that are repeated after a failure, with JSON or arrays."""

from __future__ import annotations

import hashlib
import io
import json
import random
import time
from base64 import b64encode
from collections.abc import Callable
from typing import IO, Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_non_negative_int, check_positive
from onlinehash.exceptions import (
    DamagedError,
    InvalidInputError,
    OnlineHashError,
    OverLimitError,
    ServiceError,
    UnknownIdError,
    needs_extra,
)

with needs_extra("httpx", "client"):
    import httpx

_JSON, _NPY = "application/json", "application/x-npy"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds
_RETRIED = {408, 429, 502, 503, 504}
_ERRORS = {"unknown-id": UnknownIdError, "over-limit": OverLimitError, "invalid-input": InvalidInputError}


def pause(n_before: int, shortest: float = 0.0) -> None:
    """Wait, twice as long after every time before, and a little less at random: clients do not return all at once."""
    seconds = min(_FIRST_PAUSE * 2 ** min(n_before, 10), _LONGEST_PAUSE)
    time.sleep(max(shortest, seconds * random.uniform(0.5, 1.0)))


class Transport:
    """Connections to a service; the parameters are those of the clients."""

    def __init__(
        self, url: str, key: str | None, timeout: float, retries: int, collection: str | None, options: dict[str, Any]
    ) -> None:
        check_positive("timeout", timeout)
        self._retries = check_non_negative_int("retries", retries)
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url={url!r} does not begin with http:// or https://.")
        headers = {"Accept": f"{_NPY}, {_JSON}"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        self.base_url = url
        settings = {"base_url": url, "headers": headers | options.get("headers", {})}
        self._http = httpx.Client(**{"timeout": timeout} | options | settings)
        self._root = "/api/v1" if collection is None else f"/api/v1/collections/{quote(collection, safe='')}"

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None, vectors: NDArray[Any] | None = None) -> Any:
        """Send a request until it is answered, and return the answer; an array before JSON becomes "array".

        The key, by which the service knows a change that it has applied already, is the same every time.
        """
        try:
            content = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The request cannot be written as JSON: {error}.") from error
        if vectors is not None:
            file = io.BytesIO()
            np.save(file, vectors, allow_pickle=False)
            content = file.getvalue() + content
        headers = {"Content-Type": _JSON if vectors is None else _NPY, "Idempotency-Key": uuid4().hex}
        answer = self._send(method, path, content, headers, httpx.Response.read)
        if answer.headers.get("Content-Type") == _NPY:
            file = io.BytesIO(answer.content)
            array = np.load(file, allow_pickle=False)
            return {**json.loads(file.read()), "array": array}
        try:
            return answer.json()
        except ValueError as error:
            raise _refusal(answer) from error

    def download(self, path: str, file: IO[bytes], progress: Callable[[int], None]) -> None:
        """Write the content of an answer to a file; its digest must be that of the header."""

        def write(answer: httpx.Response) -> None:
            file.seek(0)
            file.truncate()
            digest = hashlib.sha256()
            for piece in answer.iter_bytes():
                file.write(piece)
                digest.update(piece)
                progress(file.tell())
            if answer.headers.get("repr-digest") != f"sha-256=:{b64encode(digest.digest()).decode()}:":
                raise DamagedError("Nothing was written: the download does not match its digest; try again.", "digest")

        self._send("GET", path, b"", {}, write)

    def _send(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: dict[str, str],
        read: Callable[[httpx.Response], object],
    ) -> httpx.Response:
        """Send a request until it succeeds; raise if it is refused, or fails too often."""
        n_failed = 0
        while True:
            wanted = ""
            try:
                with self._http.stream(method, self._root + path, content=content or None, headers=headers) as answer:
                    if answer.is_success:
                        read(answer)
                        return answer
                    answer.read()
                error = _refusal(answer)
                if answer.status_code not in _RETRIED:
                    raise error
                wanted = answer.headers.get("Retry-After", "")
            except httpx.TransportError as failure:
                said = f"after {n_failed + 1} tries ({type(failure).__name__}: {failure})"
                error = ServiceError(f"{self.base_url} gives no answer {said}. Does it run?")
            if n_failed == self._retries:
                raise error
            pause(n_failed, min(float(wanted), _LONGEST_PAUSE) if wanted.isdecimal() else 0.0)
            n_failed += 1


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
