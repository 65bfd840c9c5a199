"""Addresses of servers: scheme://[user:password@]host[:port]/path?name=value."""

from __future__ import annotations

import math
from urllib.parse import parse_qsl, unquote, urlsplit

from onlinehash.exceptions import InvalidInputError, UnknownNameError


class Address:
    """The parts of an address; ``shown`` has no password."""

    def __init__(self, text: str) -> None:
        try:
            parts = urlsplit(text)
            port = "" if parts.port is None else f":{parts.port}"
            self._query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError as error:
            raise InvalidInputError(f"{text.rsplit('@', maxsplit=1)[-1]!r} is not an address: {error}.") from error
        if not parts.hostname:
            raise InvalidInputError(
                f"{parts.scheme}://{parts.path} names no host; write {parts.scheme}://host:port/..."
            )
        self.path = unquote(parts.path).strip("/")
        self.server = f"{parts.scheme}://{parts.netloc}"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.host = f"{host}{port}"
        self.shown = f"{parts.scheme}://{self.host}/{self.path}"

    def options(self, *known: str) -> dict[str, str]:
        """Return the options after the question mark; an unknown name is refused."""
        for name in self._query:
            if name not in known:
                raise UnknownNameError.among(f"option of {self.shown}", name, known)
        return self._query

    def seconds(self, name: str, default: float) -> float:
        """Return an option that is a number of seconds."""
        try:
            value = float(self._query.get(name, default))
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise InvalidInputError(f"{name}={self._query[name]!r} of {self.shown} is not a number of seconds above 0.")
        return value
