"""Handlers of requests that check, back up and compact a collection, change its hasher, and keep checkpoints.

What may take long is a job: it is started by one request, and others ask for its state.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from base64 import b64encode
from functools import partial
from glob import escape
from pathlib import Path
from shutil import rmtree
from typing import Any

from msgspec import Struct
from starlette.responses import FileResponse, Response

from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import make_hasher
from onlinehash.service import requests as ask
from onlinehash.service.executors import Job
from onlinehash.service.limits import check_limit
from onlinehash.service.problems import Problem, invalid
from onlinehash.service.routes import Service, operation
from onlinehash.types import Progress

_COPY = "copy.oh"
MAX_HASHER_PARAMETER = 16_384  # an integer: some take the square of it in memory

maintenance = partial(operation, tag="maintenance", executor="operations")


@maintenance("GET", "/job")
def job(service: Service) -> Job:
    """Return the state of the job that runs, or else of the last one."""
    return service.jobs.last


@maintenance("POST", "/check", refusals=(409,), writes=True)
def check(service: Service, request: ask.CheckRequest) -> Job:
    """Start a job that verifies everything that is stored; searches and changes go on."""
    return service.jobs.start(
        "check", lambda progress: service.collection.check(sample=request.sample, progress=progress)
    )


@maintenance("POST", "/compact", refusals=(409,), writes=True)
def compact(service: Service) -> Job:
    """Start a job that gives unused space back to the disk; changes wait, searches go on."""
    service.demand_writer()
    return service.jobs.start("compact", lambda progress: {"n_bytes": service.collection.compact()})


# ---------------------------------------------------------------------- backup


@maintenance("POST", "/backup", refusals=(409,), writes=True)
def make_backup(service: Service) -> Job:
    """Start a job that copies the collection as it is at one moment and checks the copy.

    Searches and changes go on. The copy takes its room on the disk until it is deleted, another is made, or the
    service stops. It also holds what was deleted until the space is needed again, so a write key is needed.
    """
    return service.jobs.start("backup", partial(_make_backup, service))


def _make_backup(service: Service, progress: Progress) -> dict[str, Any]:
    service.drop_backup()
    file, prefix, beside = service.collection.file, ".onlinehash-backup-", None
    if file is not None and os.access(file.parent, os.W_OK):
        beside = file.parent  # other folders may be too small, or in memory
        if not service.collection.readonly:
            prefix = f".{file.name}-backup-"  # of the one process that writes: others are of killed ones
            for left in beside.glob(f"{escape(prefix)}*"):
                rmtree(left, ignore_errors=True)
    folder = tempfile.TemporaryDirectory(prefix=prefix, dir=beside, ignore_cleanup_errors=True)
    path = Path(folder.name, _COPY)
    try:
        service.collection.backup(path, progress=progress)
        with path.open("rb") as copy:
            service.backup_digest = hashlib.file_digest(copy, "sha256").digest()
    except BaseException:
        folder.cleanup()
        raise
    service.backup = folder
    return {"n_bytes": path.stat().st_size, "sha256": service.backup_digest.hex()}


@maintenance("GET", "/backup", media=("application/octet-stream",), refusals=(409,), writes=True)
def get_backup(service: Service) -> Response:
    """Return the copy that the last backup made: a file that is itself a collection.

    `Repr-Digest` is its SHA-256 digest (RFC 9530).
    """
    if service.backup is None:
        rule = "There is no backup here; make one with POST /backup, and wait until GET /job says done."
        raise Problem(409, "job", rule)
    path = Path(service.backup.name, _COPY)
    headers = {"Repr-Digest": f"sha-256=:{b64encode(service.backup_digest).decode()}:"}
    return FileResponse(path, media_type="application/octet-stream", headers=headers, filename="backup.oh")


@maintenance("DELETE", "/backup", writes=True)
def delete_backup(service: Service) -> Job:
    """Delete the copy that the last backup made."""
    service.drop_backup()
    return service.jobs.last


# ---------------------------------------------------------------------- hasher


@maintenance("POST", "/change_hasher", refusals=(409,), writes=True)
def change_hasher(service: Service, request: ask.HasherRequest) -> Job:
    """Start a job that learns with another hasher from all stored items; they are encoded again when it is done.

    Changes wait while it learns. Searches go on; they use the current codes until all new ones are there: `refreshing`
    and `progress` in the statistics.
    """
    service.demand_writer()
    params = request.params | ({} if request.n_bits is None else {"n_bits": request.n_bits})
    for name, value in params.items():
        if isinstance(value, int) and name != "random_state":
            check_limit(name, value, MAX_HASHER_PARAMETER, "use a smaller one")
    if request.method is None and (request.params or request.n_bits is None):
        raise invalid("method", "Pass a method, with its params, or n_bits, or both.")
    try:
        hasher: Any = request.n_bits if request.method is None else make_hasher(request.method[:80], **params)
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        raise invalid("method", f"method and params do not fit: {error}") from None
    learn = partial(service.collection.change_hasher, hasher, wait=False)
    return service.jobs.start("change_hasher", lambda progress: learn(progress=progress))


# ---------------------------------------------------------------------- checkpoints


class CheckpointAnswer(Struct):
    """A JSON value."""

    value: Any


@operation("GET", "/checkpoints/{name}", "maintenance")
def get_checkpoint(service: Service, name: str) -> CheckpointAnswer:
    """Return the JSON value that a change last stored under a name; null if none did."""
    return CheckpointAnswer(service.collection.checkpoint(name))


@operation("PUT", "/checkpoints/{name}", "maintenance", executor="writing", writes=True)
def put_checkpoint(service: Service, request: ask.CheckpointRequest, name: str) -> CheckpointAnswer:
    """Store a JSON value under a name, without a change of items."""
    service.demand_writer()
    service.collection.upsert([], [], checkpoint={name: request.value})
    return CheckpointAnswer(request.value)
