"""The operations of the HTTP API: methods, paths, bodies and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from onlinehash.service import care_schemas as care
from onlinehash.service import insight_schemas as insight
from onlinehash.service import schemas
from onlinehash.service.handlers import Service
from onlinehash.service.media import IMAGES
from onlinehash.service.parsing import ARROW, BINARY, JSON, NPY


@dataclass(frozen=True)
class Operation:
    """One method of one path, which is below that of a collection.

    The docstring of the handler, a method of :class:`Service`, is the documentation.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    answer: type[msgspec.Struct]
    executor: str  # that runs the handler; empty for a coroutine, which chooses itself
    tag: str
    request: type[msgspec.Struct] | None = None
    media: tuple[str, ...] = (JSON,)  # types of the body
    refusals: tuple[int, ...] = ()  # statuses further to those that body and path imply
    writes: bool = False  # whether a write key is needed
    arrays: bool = False  # whether the answer may be an .npy file, followed by JSON


_ITEM, _CHECKPOINT = "/items/{id:path}", "/checkpoints/{name:path}"
OPERATIONS = (
    Operation(
        "POST", "/search", Service.search, schemas.SearchAnswer, "", "search",
        schemas.SearchRequest, (JSON, NPY, *IMAGES), (404,), arrays=True,
    ),
    Operation(
        "PUT", "/items", Service.upsert, schemas.ChangeAnswer, "writing", "items",
        schemas.UpsertRequest, (JSON, NPY, ARROW), writes=True,
    ),
    Operation(
        "PATCH", "/items", Service.update, schemas.ChangeAnswer, "writing", "items",
        schemas.UpdateRequest, refusals=(404,), writes=True,
    ),
    Operation(
        "POST", "/items/delete", Service.delete, schemas.ChangeAnswer, "writing", "items",
        schemas.DeleteRequest, refusals=(404,), writes=True,
    ),
    Operation(
        "POST", "/items/get", Service.get, schemas.ItemsAnswer, "reading", "items",
        schemas.IdsRequest, refusals=(404,), arrays=True,
    ),
    Operation(
        "POST", "/items/list", Service.list_items, schemas.ListAnswer, "reading", "items",
        schemas.ListRequest, arrays=True,
    ),
    Operation("POST", "/items/count", Service.count, schemas.CountAnswer, "reading", "items", schemas.CountRequest),
    Operation("GET", "/indexes", Service.indexes, schemas.IndexesAnswer, "reading", "items"),
    Operation(
        "POST", "/indexes", Service.create_index, schemas.IndexesAnswer, "writing", "items",
        schemas.IndexRequest, writes=True,
    ),
    Operation(
        "DELETE", "/indexes/{path:path}", Service.drop_index, schemas.IndexesAnswer, "writing", "items", writes=True,
    ),
    Operation("GET", _ITEM, Service.get_one, schemas.OneItemAnswer, "reading", "items"),
    Operation("DELETE", _ITEM, Service.delete_one, schemas.ChangeAnswer, "writing", "items", writes=True),
    Operation(
        "POST", "/encode", Service.encode, schemas.EncodeAnswer, "reading", "search",
        schemas.EncodeRequest, (JSON, NPY), (409,), arrays=True,
    ),
    Operation("GET", "/label_counts", Service.label_counts, schemas.LabelCountsAnswer, "reading", "state"),
    Operation(
        "POST", "/label_counts", Service.passing_label_counts, schemas.LabelCountsAnswer, "reading", "state",
        schemas.WhereRequest,
    ),
    Operation("GET", "/stats", Service.stats, schemas.StatsAnswer, "operations", "state"),
    Operation("POST", "/map", Service.map, insight.MapAnswer, "reading", "state", insight.MapRequest),
    Operation("GET", "/codewords", Service.codewords, insight.CodewordsAnswer, "reading", "state"),
    Operation("GET", "/media/{file:path}", Service.image, msgspec.Struct, "reading", "items", media=IMAGES),
    Operation("GET", "/history", Service.history, insight.HistoryAnswer, "reading", "state"),
    Operation("GET", "/versions", Service.versions, schemas.VersionAnswer, "operations", "state"),
    Operation("GET", "/limits", Service.get_limits, schemas.LimitsAnswer, "operations", "state"),
    Operation(
        "POST", "/refresh", Service.refresh, schemas.VersionAnswer, "", "state",
        schemas.RefreshRequest, refusals=(409,), writes=True,
    ),
    Operation("GET", "/job", Service.job, care.JobAnswer, "operations", "care"),
    Operation(
        "POST", "/check", Service.check, care.JobAnswer, "operations", "care",
        care.CheckRequest, refusals=(409,), writes=True,
    ),
    Operation("POST", "/compact", Service.compact, care.JobAnswer, "operations", "care", refusals=(409,), writes=True),
    Operation("POST", "/backup", Service.make_backup, care.JobAnswer, "operations", "care", refusals=(409,)),
    Operation(
        "GET", "/backup", Service.get_backup, msgspec.Struct, "operations", "care", media=(BINARY,), refusals=(409,),
    ),
    Operation("DELETE", "/backup", Service.delete_backup, care.JobAnswer, "operations", "care"),
    Operation(
        "POST", "/change_hasher", Service.change_hasher, care.JobAnswer, "operations", "care",
        care.HasherRequest, refusals=(409,), writes=True,
    ),
    Operation(
        "POST", "/migrate", Service.migrate, care.JobAnswer, "operations", "care",
        care.MigrateRequest, (JSON, NPY), (409,), writes=True,
    ),
    Operation("DELETE", "/migration", Service.abandon_migration, care.JobAnswer, "writing", "care", writes=True),
    Operation("GET", _CHECKPOINT, Service.get_checkpoint, care.CheckpointAnswer, "reading", "care"),
    Operation(
        "PUT", _CHECKPOINT, Service.put_checkpoint, care.CheckpointAnswer, "writing", "care",
        care.CheckpointRequest, writes=True,
    ),
)  # fmt: skip
"""The operations of a collection."""
