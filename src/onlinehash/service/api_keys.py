"""API keys for reading and writing."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic

from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.service.limits import Call
from onlinehash.service.problems import LATER, Problem

MIN_KEY_CHARACTERS = 16
MAX_COUNTED_ADDRESSES = 10_000
READ_VARIABLE, WRITE_VARIABLE = "ONLINEHASH_READ_KEY", "ONLINEHASH_WRITE_KEY"


@dataclass(frozen=True)
class ApiKeys:
    """API keys of a service; without any, every client may read and write.

    Only digests are kept. A write key also reads.

    Parameters
    ----------
    read, write : tuple of bytes
        SHA-256 digests of the keys; make them with :meth:`of`.
    required : bool, default=False
        Whether a key is needed even if there is none, so that nobody may read or write.

    Examples
    --------
    >>> keys = ApiKeys.of(read=["a-key-for-readers"], write=["a-key-for-writers"])
    >>> keys.may_write("a-key-for-readers"), keys.may_read("a-key-for-writers")
    (False, True)
    """

    read: tuple[bytes, ...] = ()
    write: tuple[bytes, ...] = ()
    required: bool = False

    @classmethod
    def of(cls, read: Iterable[str] = (), write: Iterable[str] = ()) -> ApiKeys:
        """Return keys from their text."""
        return cls(tuple(map(_digest_of_new, read)), tuple(map(_digest_of_new, write)))

    @classmethod
    def gather(cls, variables: Mapping[str, str], read: Path | None = None, write: Path | None = None) -> ApiKeys:
        """Read keys from environment variables, such as ``os.environ``, and from files with one key per line.

        Examples
        --------
        >>> bool(ApiKeys.gather({"ONLINEHASH_WRITE_KEY": "a-key-for-writers"}))
        True
        """
        named = {READ_VARIABLE: read, WRITE_VARIABLE: write}
        found = [
            variables.get(name, "").split() + ([] if file is None else _lines(file)) for name, file in named.items()
        ]
        return cls.of(*found)

    def __bool__(self) -> bool:
        return bool(self.read or self.write or self.required)

    def __or__(self, other: ApiKeys) -> ApiKeys:
        return ApiKeys(self.read + other.read, self.write + other.write, self.required or other.required)

    def may_read(self, key: str) -> bool:
        """Return whether a key may read."""
        return _is_among(key, self.read + self.write)

    def may_write(self, key: str) -> bool:
        """Return whether a key may write."""
        return _is_among(key, self.write)


class WrongKeys:
    """Wrong API keys per address, in the minute that runs.

    A right key is taken however many wrong ones came, so that nobody can lock others out.
    """

    def __init__(self, most: int) -> None:
        self._most, self._minute = most, 0
        self._counts: Counter[str] = Counter()

    def count(self, address: str) -> bool:
        """Count a wrong key; return whether there were too many."""
        minute = int(monotonic() // 60)
        if minute != self._minute or len(self._counts) > MAX_COUNTED_ADDRESSES:
            self._minute = minute
            self._counts.clear()
        self._counts[address] += 1
        return self._counts[address] > self._most


def key_of(call: Call) -> str:
    """Return the API key of a request; empty if it has none."""
    scheme, _, token = call.header(b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def may_read(call: Call, keys: ApiKeys) -> bool:
    """Return whether a request has a key that may read."""
    return not keys or keys.may_read(key_of(call))


def demand_key(call: Call, keys: ApiKeys, wrong_keys: WrongKeys, *, write: bool = False) -> None:
    """Refuse a request without the API key it needs."""
    if not may_read(call, keys):
        client = call.scope.get("client")
        if b"authorization" in call.headers and wrong_keys.count(client[0] if client else ""):
            raise Problem(429, "key", "Too many wrong API keys came from this address; wait a minute.", headers=LATER)
        rule = "The API key is missing or wrong; send 'Authorization: Bearer <key>'."
        raise Problem(401, "key", rule, field="Authorization", headers={"WWW-Authenticate": "Bearer"})
    if write and keys and not keys.may_write(key_of(call)):
        raise Problem(403, "key", "This API key only reads; use a write key.", field="Authorization")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def _digest_of_new(key: str) -> bytes:
    if len(key) < MIN_KEY_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInputError(
            f"A key has {len(key)} characters; use at least {MIN_KEY_CHARACTERS}, all printable ASCII without spaces. "
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return _digest(key)


def _is_among(key: str, digests: tuple[bytes, ...]) -> bool:
    """Compare a key with every digest, in constant time."""
    mine = _digest(key)
    return sum([hmac.compare_digest(mine, digest) for digest in digests]) > 0


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        raise DataNotFoundError(f"There is no key file {file}; write one key per line.")
    try:
        keys = file.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInputError(f"The key file {file} cannot be read: {reason}; write one key per line.") from error
    if not keys:
        raise InvalidInputError(f"{file} holds no key; write one key per line.")
    return keys


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or name."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=64)
def is_local(host: str) -> bool:
    """Return whether a Host header, with or without a port, is a name of this machine."""
    name, colon, port = host.rpartition(":")
    return is_loopback(name if colon and port.isdecimal() else host)


def check_address(host: str, keys: ApiKeys) -> None:
    """Raise if other machines can reach the host and there are no keys."""
    if not is_loopback(host) and not keys:
        raise InvalidInputError(
            f"host={host!r} can be reached from other machines, and there are no API keys. Set {READ_VARIABLE} and "
            f"{WRITE_VARIABLE} (or give key files), or listen on 127.0.0.1."
        )
