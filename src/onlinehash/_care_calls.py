"""The calls of the clients that take care of a collection: jobs of the service, which are waited for."""

from __future__ import annotations

import os
from base64 import b64encode
from itertools import chain, islice
from pathlib import Path
from typing import Any

from onlinehash._call import Call, Calls, Download, pauses, records
from onlinehash._files import whole_file
from onlinehash._validation import check_features
from onlinehash.collection.care import replacing
from onlinehash.collection.check import CheckReport
from onlinehash.exceptions import DamagedError, InvalidInputError, OverLimitError, ServiceError
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Progress

_STEPS = 1000  # of a progress bar
_PAIRS = 1000  # new vectors per request


def silent(done: int, total: int) -> None:
    """Show no progress."""


def check(sample: int, progress: Progress) -> Calls[CheckReport]:
    found = yield from _job(Call("POST", "/check", {"sample": sample}), progress)
    return CheckReport(**{**found, "problems": tuple(found["problems"])})


def compact(progress: Progress) -> Calls[int]:
    found = yield from _job(Call("POST", "/compact"), progress)
    return int(found["n_bytes"])


def change_hasher(hasher: OnlineHasher | str | int, progress: Progress) -> Calls[None]:
    yield from _job(Call("POST", "/change_hasher", _recipe(hasher)), progress)


def migrate(embed: str | None, vectors: Any, hasher: Any, progress: Progress) -> Calls[None]:
    if embed is None and vectors is None:
        raise InvalidInputError("Pass the new embedder with embed=, or new vectors with vectors=.")
    body = {"embed": embed, **({} if hasher is None else _recipe(hasher))}
    if vectors is None:
        yield from _job(Call("POST", "/migrate", body), progress)
        return
    found = {"complete": False, "n_done": 0, "n_items": 0}
    rest, size = iter(vectors), _PAIRS
    while pairs := list(islice(rest, size)):
        ids, rows = [id for id, _ in pairs], check_features([row for _, row in pairs])
        made = None if embed is not None or hasher is not None else records(ids, rows, None)
        sent = body | {"ids": ids, "vectors": rows.tolist()} if made is None else made
        try:
            found = yield from _job(Call("POST", "/migrate", sent), silent)
        except OverLimitError:
            if len(pairs) == 1:
                raise
            rest, size = chain(pairs, rest), len(pairs) // 2
            continue
        progress(found["n_done"], found["n_items"])
        hasher, body = None, {"embed": embed}
    if not found["n_items"]:
        raise InvalidInputError("vectors holds nothing; pass pairs of an id and its new vector, for all items.")
    if not found["complete"]:
        n_left = found["n_items"] - found["n_done"]
        raise InvalidInputError(
            f"{n_left} of {found['n_items']} items have no new vector yet; call migrate(vectors=...) again with "
            "theirs, or abandon_migration()."
        )


def backup(path: str | os.PathLike[str], progress: Progress) -> Calls[None]:
    with replacing(Path(path)) as aside, whole_file(aside) as file:
        found = yield from _job(Call("POST", "/backup"), lambda done, total: progress(done, 2 * total))
        n_bytes = found["n_bytes"]
        copy = Download(file, lambda done: progress(n_bytes + done, 2 * n_bytes))
        headers = yield Call("GET", "/backup", into=copy)
        if headers.get("repr-digest") != f"sha-256=:{b64encode(copy.digest.digest()).decode()}:":
            raise DamagedError(f"{path} was not written: the download does not match its digest; try again.", "digest")
    yield Call("DELETE", "/backup")


def _job(start: Call, progress: Progress) -> Calls[dict[str, Any]]:
    """Start a job, wait for its end, and return its result."""
    state = yield start
    number = state["number"]
    for pause in pauses():
        progress(int(_STEPS * state["progress"]), _STEPS)
        if state["state"] != "running" or state["number"] != number:
            break
        state = yield Call("GET", "/job", pause=pause)
    if state["number"] != number:
        raise ServiceError("The service has started another job since, so that the result of this one is not known.")
    if state["state"] != "done":
        raise ServiceError(f"The service could not do this: {state['error']}")
    result: dict[str, Any] = state["result"] or {}
    return result


def _recipe(hasher: OnlineHasher | str | int) -> dict[str, Any]:
    """Return the name and the parameters of a hasher."""
    if isinstance(hasher, int):
        return {"n_bits": hasher}
    if isinstance(hasher, str):
        return {"method": hasher}
    params = hasher.get_params(deep=False)
    return {"method": hasher.name, "n_bits": params.pop("n_bits"), "params": params}
