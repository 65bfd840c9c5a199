"""HTTP requests that are repeated after a failure, with JSON or array bodies."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_non_negative_int, check_positive
from onlinehash.exceptions import (
    InvalidInputError,
    MissingExtraError,
    OnlineHashError,
    ServiceError,
    UnknownIdError,
)

try:
    import httpx
except ImportError:
    raise MissingExtraError.of("httpx", "client") from None

_RETRIED = {408, 429, 502, 503, 504}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds


class Transport:
    """Connections to a service; the parameters are those of :class:`onlinehash.Client`."""

    def __init__(self, url: str, key: str | None, timeout: float, retries: int) -> None:
        check_positive("timeout", timeout)
        self._retries = check_non_negative_int("retries", retries)
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url={url!r} does not begin with http:// or https://.")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)
        self.base_url = self._http.base_url

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | NDArray[Any] | None = None,
        *,
        retry_body: dict[str, Any] | None = None,
        query: dict[str, str] | None = None,
    ) -> Any:
        """Return the JSON answer to a request.

        The body is sent as JSON or as a .npy file. ``retry_body`` replaces it when the request is repeated.
        """
        for n_failed, shortest in enumerate(pauses()):
            pause = shortest
            content, kind = _content(body if retry_body is None or not n_failed else retry_body)
            try:
                answer = self._http.request(method, path, content=content, headers=kind, params=query)
            except httpx.TransportError as error:
                if n_failed >= self._retries:
                    raise ServiceError(
                        f"{self.base_url} gives no answer after {n_failed + 1} tries "
                        f"({type(error).__name__}: {error}). Does it run?"
                    ) from error
            else:
                if answer.is_success:
                    return answer.json()
                if answer.status_code not in _RETRIED or n_failed >= self._retries:
                    raise _error(answer)
                seconds = answer.headers.get("Retry-After", "")
                pause = max(pause, min(float(seconds), _LONGEST_PAUSE) if seconds.isdecimal() else 0.0)
            time.sleep(pause)
        raise AssertionError("pauses never end")


def pauses() -> Iterator[float]:
    """Yield seconds to wait that double, each reduced at random so that clients do not return all at once."""
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _content(body: dict[str, Any] | NDArray[Any] | None) -> tuple[bytes | None, dict[str, str]]:
    """Return the bytes of a body, and the header that names their type."""
    if body is None:
        return None, {}
    if isinstance(body, np.ndarray):
        file = io.BytesIO()
        np.save(file, body, allow_pickle=False)
        return file.getvalue(), {"Content-Type": "application/x-npy"}
    try:
        return json.dumps(body, allow_nan=False).encode(), {"Content-Type": "application/json"}
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The request cannot be written as JSON: {error}.") from error


def _error(answer: httpx.Response) -> OnlineHashError:
    try:
        problem = answer.json()
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        problem, detail = {}, answer.text[:200]
    kind = str(problem.get("type", "")).rpartition(":")[2]
    if kind == "unknown-id":
        return UnknownIdError(detail)
    if kind in ("invalid-input", "over-limit"):
        return InvalidInputError(detail)
    return ServiceError(f"{answer.status_code} {answer.reason_phrase}: {detail}", answer.status_code, problem)
