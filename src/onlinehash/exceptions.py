"""The errors of onlinehash.

Every error says what was given, the rule, and the way out::

    OnlineHashError
    ├── InvalidInputError      (ValueError)         a value that breaks a rule
    │   ├── InvalidFeaturesError                    X: shape, width, dtype, NaN or infinity
    │   │   └── NotNumbersError    (TypeError)      X: objects that are not numbers
    │   ├── InvalidLabelsError                      y: length, kind, unknown to a fixed codebook
    │   ├── InvalidCodesError                       codes: dtype, width, padding
    │   └── TooManyResultsError                     a search that finds more than was allowed
    │       └── LargeResultError                    ... in bytes of payloads
    ├── UnknownNameError       (ValueError)         no such hasher, data set, protocol, ...
    ├── UnknownIdError         (KeyError)           no such id in an index
    ├── NotLearnedError        (AttributeError)     used before the first instance was learned
    ├── DataNotFoundError      (FileNotFoundError)  a data set that is not on this machine
    ├── FileFormatError        (ValueError)         a file that is damaged or not one of ours
    │   └── DamagedError                            a collection of ours that is damaged
    ├── StorageError           (OSError)            a collection's file cannot be read or written
    │   └── LockedError                             another process writes to the collection
    ├── ServiceError                                a service cannot be reached, or refuses a request
    ├── DeviceError            (RuntimeError)       a GPU is missing, or has too little memory
    └── MissingExtraError      (ImportError)        an optional dependency that is not installed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class OnlineHashError(Exception):
    """Base of every error that onlinehash raises on purpose."""


class InvalidInputError(OnlineHashError, ValueError):
    """A value breaks a rule."""


class InvalidFeaturesError(InvalidInputError):
    """Features have the wrong shape, width or dtype, or hold NaN or infinity."""


class NotNumbersError(InvalidFeaturesError, TypeError):
    """Features hold objects that cannot be read as numbers."""


class InvalidLabelsError(InvalidInputError):
    """Labels have the wrong length or kind, or a fixed codebook has no word for them."""


class InvalidCodesError(InvalidInputError):
    """Codes have the wrong dtype or width."""


class IncompleteMigrationError(InvalidInputError):
    """Items have no new vector yet; those that were given are stored."""

    def __init__(self, n_left: int, n_items: int, id: int | str) -> None:
        super().__init__(
            f"{n_left} of {n_items} items have no new vector yet, {id!r} among them; call migrate(vectors=...) again "
            "with theirs, or abandon_migration()."
        )
        self.n_left, self.n_items = n_left, n_items


class TooManyResultsError(InvalidInputError):
    """A search finds more items than the caller allows."""

    @classmethod
    def of(cls, n_found: int, max_results: int) -> TooManyResultsError:
        """Make the error of a range search."""
        return cls(f"radius finds at least {n_found} items, more than {max_results}; use a smaller one, or raise that.")


class LargeResultError(TooManyResultsError):
    """The payloads of the items that a search finds have more bytes than the caller allows."""


class OverLimitError(InvalidInputError):
    """A request exceeds a limit of the service."""


class UnknownNameError(OnlineHashError, ValueError):
    """A name is not in a registry."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Make the error, with the closest known name as a hint.

        Examples
        --------
        >>> print(UnknownNameError.among("hasher", "hchoh", ["hcoh", "lsh"]))
        Unknown hasher 'hchoh'. Did you mean 'hcoh'? Known: hcoh, lsh.
        """
        names = sorted(known)
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return cls(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")


class UnknownIdError(OnlineHashError, KeyError):
    """An index has no item with an id."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class NotLearnedError(OnlineHashError, ValueError, AttributeError):
    """A hasher was used before it learned from a first instance."""


class DataNotFoundError(OnlineHashError, FileNotFoundError):
    """A data set is not on this machine and was not fetched."""


class FileFormatError(OnlineHashError, ValueError):
    """A file is damaged, truncated, or not one that onlinehash wrote."""


class DamagedError(FileFormatError):
    """What a collection has stored is not what is there now.

    Parameters
    ----------
    message : str
    problem : str, optional
        What is damaged, without the name of the collection and the way out.
    """

    def __init__(self, message: str, problem: str | None = None) -> None:
        super().__init__(message)
        self.problem = problem or message


class StorageError(OnlineHashError, OSError):
    """The file of a collection cannot be read or written: a full disk, a read-only folder, a closed collection."""


class LockedError(StorageError):
    """Another process, or another part of this one, writes to the collection."""


class ServiceError(OnlineHashError):
    """The service cannot be reached, or refuses a request.

    Parameters
    ----------
    message : str
    status : int or None
        HTTP status; None without an answer.
    problem : dict
        The problem document.

    Examples
    --------
    >>> ServiceError("There is no item 7.", status=404).status
    404
    """

    def __init__(self, message: str, status: int | None = None, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem or {}


class DeviceError(OnlineHashError, RuntimeError):
    """There is no GPU that can be used, or it has too little memory."""


class MissingExtraError(OnlineHashError, ImportError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, module: str, extra: str) -> MissingExtraError:
        """Make the error with the exact command that installs the extra, from a clone of the repository.

        Examples
        --------
        >>> print(MissingExtraError.of("faiss", "faiss"))
        faiss is not installed. In a clone of onlinehash, run: pip install '.[faiss]'
        """
        return cls(f"{module} is not installed. In a clone of onlinehash, run: pip install '.[{extra}]'")


@contextmanager
def located(place: object) -> Iterator[None]:
    """Put the place of rows, such as their file, into an error about them.

    Examples
    --------
    >>> with located("items.csv, line 3"):
    ...     raise InvalidFeaturesError("X contains NaN.")
    Traceback (most recent call last):
        ...
    onlinehash.exceptions.InvalidFeaturesError: items.csv, line 3: X contains NaN.
    """
    try:
        yield
    except (InvalidInputError, FileFormatError) as error:
        raise type(error)(f"{place}: {error}") from error


@contextmanager
def needs_extra(module: str, extra: str) -> Iterator[None]:
    """Import optional dependencies in this context: one that is missing raises :class:`MissingExtraError`.

    Examples
    --------
    >>> with needs_extra("lapis", "gpu"):
    ...     import lapis
    Traceback (most recent call last):
        ...
    onlinehash.exceptions.MissingExtraError: lapis is not installed. In a clone of onlinehash, run: pip install '.[gpu]'
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError.of(module, extra) from error


def counted(number: int, noun: str) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> counted(1, "item"), counted(2, "item")
    ('1 item', '2 items')
    """
    return f"{number} {noun if number == 1 else f'{noun}s'}"
