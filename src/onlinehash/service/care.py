"""Care: backup, check, compaction, change of hasher, migration and checkpoints of a collection over HTTP."""

from __future__ import annotations

import hashlib
import os
import tempfile
from base64 import b64encode
from dataclasses import asdict
from glob import escape
from pathlib import Path
from shutil import rmtree
from time import sleep
from typing import Any

from starlette.responses import FileResponse

from onlinehash.collection import Collection
from onlinehash.collection.care import part_of
from onlinehash.embedders import names_model
from onlinehash.exceptions import IncompleteMigrationError, InvalidInputError, StorageError, counted
from onlinehash.hashers import HASHERS, OnlineHasher, make_hasher
from onlinehash.service import care_schemas
from onlinehash.service.jobs import Jobs
from onlinehash.service.limits import Limits
from onlinehash.service.parsing import BINARY, rows_of
from onlinehash.service.problems import Problem, invalid, over_limit
from onlinehash.service.repeats import own_name
from onlinehash.types import Progress

_COPY = "copy.oh"
_POLL = 0.1  # seconds between two looks at a refresh
_STEPS = 100  # of the progress of a refresh
_LARGEST = 16_384  # integer parameters of a hasher: some take the square of that in memory


class Care:
    """The handlers of a collection's care.

    What may take long is a job: it is started by one request, and others ask for its state.
    """

    collection: Collection
    limits: Limits
    jobs: Jobs
    _backup: tempfile.TemporaryDirectory[str] | None = None
    _digest = b""

    def _demand_writer(self) -> None:
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; send changes to the one that writes.")

    def job(self) -> care_schemas.JobAnswer:
        """Return the state of the job that runs, or else of the last one."""
        return self.jobs.last

    def check(self, request: care_schemas.CheckRequest) -> care_schemas.JobAnswer:
        """Start a job that verifies everything that is stored; searches and changes go on."""
        return self.jobs.start(
            "check", lambda progress: asdict(self.collection.check(sample=request.sample, progress=progress))
        )

    def compact(self) -> care_schemas.JobAnswer:
        """Start a job that gives unused space back to the disk; changes wait, searches go on."""
        self._demand_writer()
        return self.jobs.start("compact", lambda progress: {"n_bytes": self.collection.compact(progress=progress)})

    # ------------------------------------------------------------------ backup

    def make_backup(self) -> care_schemas.JobAnswer:
        """Start a job that copies the collection as it is at one moment and checks the copy.

        Searches and changes go on. The copy takes its room on the disk until it is deleted, another is made, or the
        service stops. A read key is enough: it can read all items anyhow, and what makes backups need not be able to
        change anything.
        """
        return self.jobs.start("backup", self._make_backup)

    def _make_backup(self, progress: Progress) -> dict[str, Any]:
        self._drop_backup()
        file, prefix, beside = self.collection.file, ".onlinehash-backup-", None
        if file is not None and os.access(file.parent, os.W_OK):
            beside = file.parent  # other folders may be too small, or in memory
            if not self.collection.readonly:
                prefix = f".{file.name}-backup-"  # of the one process that writes: others are of killed ones
                for left in beside.glob(f"{escape(prefix)}*"):
                    rmtree(left, ignore_errors=True)
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=beside, ignore_cleanup_errors=True)
        path = Path(folder.name, _COPY)
        try:
            self.collection.backup(path, progress=progress)
            with path.open("rb") as copy:
                self._digest = hashlib.file_digest(copy, "sha256").digest()
        except BaseException:
            folder.cleanup()
            raise
        self._backup = folder
        return {"n_bytes": path.stat().st_size, "sha256": self._digest.hex()}

    def get_backup(self) -> FileResponse:
        """Return the copy that the last backup made: a file that is itself a collection.

        `Repr-Digest` is its SHA-256 digest (RFC 9530).
        """
        if self._backup is None:
            raise Problem(
                409, "job", "There is no backup here; make one with POST /backup, and wait until GET /job says done."
            )
        digest = f"sha-256=:{b64encode(self._digest).decode()}:"
        return FileResponse(
            Path(self._backup.name, _COPY), media_type=BINARY, headers={"Repr-Digest": digest}, filename="backup.oh"
        )

    def delete_backup(self) -> care_schemas.JobAnswer:
        """Delete the copy that the last backup made."""
        self._drop_backup()
        return self.job()

    def _drop_backup(self) -> None:
        kept, self._backup = self._backup, None
        if kept is not None:
            kept.cleanup()

    # ------------------------------------------------------------------ hasher and embedding model

    def change_hasher(self, request: care_schemas.HasherRequest) -> care_schemas.JobAnswer:
        """Start a job that learns with another hasher from all stored items, and encodes them again.

        Changes wait while it learns. Searches go on; they use the current codes until all new ones are there.
        """
        self._demand_writer()
        hasher = self._hasher(request)
        if hasher is None:
            raise invalid("method", "Pass a method, n_bits, or both.")
        return self.jobs.start("change_hasher", lambda progress: self._change_hasher(hasher, progress))

    def _change_hasher(self, hasher: OnlineHasher | int, progress: Progress) -> None:
        self.collection.change_hasher(hasher, wait=False, progress=part_of(progress, 0, 2))
        encoding = part_of(progress, 1, 2)
        while (stats := self.collection.stats()).refreshing and stats.refresh_error is None:
            encoding(int(_STEPS * stats.progress), _STEPS)
            sleep(_POLL)
        if stats.refresh_error is not None:
            raise StorageError(f"The items were not encoded again: {stats.refresh_error}")

    def _hasher(self, request: care_schemas.HasherRequest | care_schemas.MigrateRequest) -> OnlineHasher | int | None:
        """Return the hasher, or the number of bits, that a request asks for."""
        params = request.params | ({} if request.n_bits is None else {"n_bits": request.n_bits})
        for name, value in params.items():
            if isinstance(value, int) and name != "random_state" and value > _LARGEST:
                raise over_limit(name, value, _LARGEST, "use a smaller one")
        if request.method is None:
            if request.params:
                raise invalid("params", "params goes with method; pass the name of the hasher.")
            return request.n_bits
        kind = HASHERS.get(request.method.lower())
        if kind is None:
            rule = f"method: there is no {request.method[:80]!r} here; there are {', '.join(sorted(HASHERS))}."
            raise invalid("method", rule)
        known = kind().get_params(deep=False)
        for name in params:
            if name not in known:
                rule = f"params: {request.method} has no {name!r}; it has {', '.join(sorted(known))}."
                raise invalid("params", rule, name)
        try:
            return make_hasher(request.method, **params)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise invalid("params", f"params do not fit: {error}.") from None

    def migrate(self, request: care_schemas.MigrateRequest) -> care_schemas.JobAnswer:
        """Start a job that goes on with a migration to another embedding model, of any width; searches go on.

        Send new vectors of some items at a time, in any order. When all items have one, a new hasher learns from
        them, and vectors, codes and hasher are replaced at once: `complete` in the result. With `embed`, the documents
        that the collection keeps are embedded here.

        `application/x-npy`: records with the fields `id` and `vectors`.
        """
        self._demand_writer()
        if (request.ids is None) != (request.vectors is None):
            raise invalid("vectors", "vectors goes with ids, one per id.")
        if request.embed is not None and names_model(request.embed):
            rule = "embed names a model that would have to be loaded; embed the documents yourself, and send vectors."
            raise invalid("embed", rule, request.embed)
        hasher = self._hasher(request)
        if isinstance(hasher, int):
            raise invalid("method", "n_bits goes with method; pass the name of the hasher.")
        pairs = None
        if request.ids is not None and request.vectors is not None:
            rows = rows_of(request.vectors, self.limits)
            if len(rows) != len(request.ids):
                given, wanted = counted(len(rows), "row"), counted(len(request.ids), "id")
                raise invalid("vectors", f"vectors has {given} for {wanted}; pass one row per id.")
            pairs = list(zip(request.ids, rows, strict=True))
        return self.jobs.start("migrate", lambda progress: self._migrate(request.embed, pairs, hasher, progress))

    def _migrate(self, embed: str | None, pairs: Any, hasher: Any, progress: Progress) -> dict[str, Any]:
        try:
            self.collection.migrate(embed=embed, vectors=pairs, hasher=hasher, progress=progress)
        except IncompleteMigrationError as error:
            return {"complete": False, "n_done": error.n_items - error.n_left, "n_items": error.n_items}
        n_items = len(self.collection)
        return {"complete": True, "n_done": n_items, "n_items": n_items}

    def abandon_migration(self) -> care_schemas.JobAnswer:
        """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
        self._demand_writer()
        self.collection.abandon_migration()
        return self.job()

    # ------------------------------------------------------------------ checkpoints

    def get_checkpoint(self, name: str) -> care_schemas.CheckpointAnswer:
        """Return the JSON value that a change last stored under a name; null if none did."""
        return care_schemas.CheckpointAnswer(self.collection.checkpoint(own_name(name)))

    def put_checkpoint(self, request: care_schemas.CheckpointRequest, name: str) -> care_schemas.CheckpointAnswer:
        """Store a JSON value under a name, without a change of items."""
        self._demand_writer()
        self.collection.upsert([], [], checkpoint={own_name(name): request.value})
        return care_schemas.CheckpointAnswer(request.value)

    def close(self) -> None:
        """End the job that runs, and delete the backup."""
        self.jobs.close()
        self._drop_backup()
