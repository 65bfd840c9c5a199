"""Handlers of requests that check, back up, compact and migrate a collection, change its hasher, and keep checkpoints.

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
from time import sleep
from typing import Any

from msgspec import Struct
from starlette.responses import FileResponse, Response

from onlinehash.embedders import names_model
from onlinehash.exceptions import IncompleteMigrationError, InvalidInputError, StorageError, counted
from onlinehash.hashers import OnlineHasher, make_hasher
from onlinehash.service import requests as ask
from onlinehash.service.executors import Job
from onlinehash.service.problems import Problem, check_limit, invalid
from onlinehash.service.requests import JSON, NPY, rows_of
from onlinehash.service.routes import Service, operation, own_name
from onlinehash.types import Progress

_COPY = "copy.oh"
SECONDS_PER_POLL = 0.1  # of a refresh
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
    return service.jobs.start("compact", lambda progress: {"n_bytes": service.collection.compact(progress=progress)})


# ---------------------------------------------------------------------- backup


@maintenance("POST", "/backup", refusals=(409,))
def make_backup(service: Service) -> Job:
    """Start a job that copies the collection as it is at one moment and checks the copy.

    Searches and changes go on. The copy takes its room on the disk until it is deleted, another is made, or the
    service stops. A read key is enough: it can read all items anyhow, and what makes backups need not be able to
    change anything.
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


@maintenance("GET", "/backup", media=("application/octet-stream",), refusals=(409,))
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


@maintenance("DELETE", "/backup")
def delete_backup(service: Service) -> Job:
    """Delete the copy that the last backup made."""
    service.drop_backup()
    return service.jobs.last


# ---------------------------------------------------------------------- hasher and embedding model


@maintenance("POST", "/change_hasher", refusals=(409,), writes=True)
def change_hasher(service: Service, request: ask.HasherRequest) -> Job:
    """Start a job that learns with another hasher from all stored items, and encodes them again.

    Changes wait while it learns. Searches go on; they use the current codes until all new ones are there.
    """
    service.demand_writer()
    hasher = _hasher(request)
    if hasher is None:
        raise invalid("method", "Pass a method, n_bits, or both.")
    return service.jobs.start("change_hasher", partial(_change_hasher, service, hasher))


def _change_hasher(service: Service, hasher: OnlineHasher | int, progress: Progress) -> None:
    collection = service.collection
    collection.change_hasher(hasher, wait=False, progress=lambda done, total: progress(done, 2 * total))
    while (stats := collection.stats()).refreshing and stats.refresh_error is None:
        progress(100 + int(100 * stats.progress), 200)
        sleep(SECONDS_PER_POLL)
    if stats.refresh_error is not None:
        raise StorageError(f"The items were not encoded again: {stats.refresh_error}")


def _hasher(request: ask.HasherRequest) -> OnlineHasher | int | None:
    """Return the hasher, or the number of bits, that a request asks for."""
    params = request.params | ({} if request.n_bits is None else {"n_bits": request.n_bits})
    for name, value in params.items():
        if isinstance(value, int) and name != "random_state":
            check_limit(name, value, MAX_HASHER_PARAMETER, "use a smaller one")
    if request.method is None:
        if request.params:
            raise invalid("params", "params goes with method; pass the name of the hasher.")
        return request.n_bits
    try:
        return make_hasher(request.method[:80], **params)
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        raise invalid("method", f"method and params do not fit: {error}") from None


@maintenance("POST", "/migrate", media=(JSON, NPY), refusals=(409,), writes=True)
def migrate(service: Service, request: ask.MigrateRequest) -> Job:
    """Start a job that goes on with a migration to another embedding model, of any width; searches go on.

    Send new vectors of some items at a time, in any order. When all items have one, a new hasher learns from
    them, and vectors, codes and hasher are replaced at once: `complete` in the result. With `embed`, the documents
    that the collection keeps are embedded here.

    `application/x-npy`: records with the fields `id` and `vectors`.
    """
    service.demand_writer()
    if (request.ids is None) != (request.vectors is None):
        raise invalid("vectors", "vectors goes with ids, one per id.")
    if request.embed is not None and names_model(request.embed):
        rule = "embed names a model that would have to be loaded; embed the documents yourself, and send vectors."
        raise invalid("embed", rule, request.embed)
    hasher = _hasher(request)
    if isinstance(hasher, int):
        raise invalid("method", "n_bits goes with method; pass the name of the hasher.")
    pairs = None
    if request.ids is not None and request.vectors is not None:
        rows = rows_of(request.vectors, service.limits)
        if len(rows) != len(request.ids):
            given, wanted = counted(len(rows), "row"), counted(len(request.ids), "id")
            raise invalid("vectors", f"vectors has {given} for {wanted}; pass one row per id.")
        pairs = list(zip(request.ids, rows, strict=True))
    return service.jobs.start("migrate", partial(_migrate, service, request.embed, pairs, hasher))


def _migrate(service: Service, embed: str | None, pairs: Any, hasher: Any, progress: Progress) -> dict[str, Any]:
    try:
        service.collection.migrate(embed=embed, vectors=pairs, hasher=hasher, progress=progress)
    except IncompleteMigrationError as error:
        return {"complete": False, "n_done": error.n_items - error.n_left, "n_items": error.n_items}
    n_items = len(service.collection)
    return {"complete": True, "n_done": n_items, "n_items": n_items}


@operation("DELETE", "/migration", "maintenance", executor="writing", writes=True)
def abandon_migration(service: Service) -> Job:
    """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
    service.demand_writer()
    service.collection.abandon_migration()
    return service.jobs.last


# ---------------------------------------------------------------------- checkpoints


class CheckpointAnswer(Struct):
    """A JSON value."""

    value: Any


@operation("GET", "/checkpoints/{name:path}", "maintenance")
def get_checkpoint(service: Service, name: str) -> CheckpointAnswer:
    """Return the JSON value that a change last stored under a name; null if none did."""
    return CheckpointAnswer(service.collection.checkpoint(own_name(name)))


@operation("PUT", "/checkpoints/{name:path}", "maintenance", executor="writing", writes=True)
def put_checkpoint(service: Service, request: ask.CheckpointRequest, name: str) -> CheckpointAnswer:
    """Store a JSON value under a name, without a change of items."""
    service.demand_writer()
    service.collection.upsert([], [], checkpoint={own_name(name): request.value})
    return CheckpointAnswer(request.value)
