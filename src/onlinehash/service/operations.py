"""The operations of the HTTP API: methods, paths, bodies and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from onlinehash.service import care_schemas, schemas
from onlinehash.service import insight_schemas as insight
from onlinehash.service.handlers import Service
from onlinehash.service.media import IMAGES
from onlinehash.service.parsing import ARROW, BINARY, JSON, NPY

ANY = (401, 403, 421, 429, 503)
_BODY = (408, 413, 415, 422)


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    Parameters
    ----------
    method, path : str
        The path is below that of a collection.
    handler : callable
        A method of :class:`Service`. Its docstring is the documentation.
    answer : type of Struct
    executor : str
        The executor that runs the handler; empty for a coroutine, which chooses itself.
    tag : str
    request : type of Struct, optional
        The body.
    media : tuple of str
        Media types of the body.
    refusals : tuple of int
        Statuses of refusals, further to those of every operation.
    writes : bool
        Whether a write key is needed.
    arrays : bool
        Whether the answer may be an .npy file, followed by JSON.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    answer: type[msgspec.Struct]
    executor: str
    tag: str
    request: type[msgspec.Struct] | None = None
    media: tuple[str, ...] = (JSON,)
    refusals: tuple[int, ...] = ()
    writes: bool = False
    arrays: bool = False


_ITEM, _CHECKPOINT = "/items/{id:path}", "/checkpoints/{name:path}"
OPERATIONS = (
    Operation(
        "POST", "/search", Service.search, schemas.SearchAnswer, "", "search",
        schemas.SearchRequest, (JSON, NPY, *IMAGES), (404, *_BODY), arrays=True,
    ),
    Operation(
        "PUT", "/items", Service.upsert, schemas.ChangeAnswer, "writing", "items",
        schemas.UpsertRequest, (JSON, NPY, ARROW), _BODY, writes=True,
    ),
    Operation(
        "PATCH", "/items", Service.update, schemas.ChangeAnswer, "writing", "items",
        schemas.UpdateRequest, refusals=(404, *_BODY), writes=True,
    ),
    Operation(
        "POST", "/items/delete", Service.delete, schemas.ChangeAnswer, "writing", "items",
        schemas.DeleteRequest, refusals=(404, *_BODY), writes=True,
    ),
    Operation(
        "POST", "/items/get", Service.get, schemas.ItemsAnswer, "reading", "items",
        schemas.IdsRequest, refusals=(404, *_BODY), arrays=True,
    ),
    Operation(
        "POST", "/items/list", Service.list_items, schemas.ListAnswer, "reading", "items",
        schemas.ListRequest, refusals=_BODY, arrays=True,
    ),
    Operation(
        "POST", "/items/count", Service.count, schemas.CountAnswer, "reading", "items",
        schemas.CountRequest, refusals=_BODY,
    ),
    Operation("GET", "/indexes", Service.indexes, schemas.IndexesAnswer, "reading", "items"),
    Operation(
        "POST", "/indexes", Service.create_index, schemas.IndexesAnswer, "writing", "items",
        schemas.IndexRequest, refusals=_BODY, writes=True,
    ),
    Operation(
        "DELETE", "/indexes/{path:path}", Service.drop_index, schemas.IndexesAnswer, "writing", "items",
        refusals=(404, 422), writes=True,
    ),
    Operation("GET", _ITEM, Service.get_one, schemas.OneItemAnswer, "reading", "items", refusals=(404, 422)),
    Operation(
        "DELETE", _ITEM, Service.delete_one, schemas.ChangeAnswer, "writing", "items", refusals=(404, 422), writes=True
    ),
    Operation(
        "POST", "/encode", Service.encode, schemas.EncodeAnswer, "reading", "search",
        schemas.EncodeRequest, (JSON, NPY), (409, *_BODY), arrays=True,
    ),
    Operation("GET", "/label_counts", Service.label_counts, schemas.LabelCountsAnswer, "reading", "state"),
    Operation(
        "POST", "/label_counts", Service.passing_label_counts, schemas.LabelCountsAnswer, "reading", "state",
        schemas.WhereRequest, refusals=_BODY,
    ),
    Operation("GET", "/stats", Service.stats, schemas.StatsAnswer, "operations", "state"),
    Operation(
        "POST", "/map", Service.map, insight.MapAnswer, "reading", "state", insight.MapRequest, refusals=_BODY
    ),
    Operation("GET", "/codewords", Service.codewords, insight.CodewordsAnswer, "reading", "state"),
    Operation(
        "GET", "/media/{file:path}", Service.image, msgspec.Struct, "reading", "items",
        media=IMAGES, refusals=(404, 422),
    ),
    Operation("GET", "/history", Service.history, insight.HistoryAnswer, "reading", "state"),
    Operation("GET", "/versions", Service.versions, schemas.VersionAnswer, "operations", "state"),
    Operation("GET", "/limits", Service.get_limits, schemas.LimitsAnswer, "operations", "state"),
    Operation(
        "POST", "/refresh", Service.refresh, schemas.VersionAnswer, "", "state",
        schemas.RefreshRequest, refusals=(409, *_BODY), writes=True,
    ),
    Operation("GET", "/job", Service.job, care_schemas.JobAnswer, "operations", "care"),
    Operation(
        "POST", "/check", Service.check, care_schemas.JobAnswer, "operations", "care",
        care_schemas.CheckRequest, refusals=(409, *_BODY), writes=True,
    ),
    Operation(
        "POST", "/compact", Service.compact, care_schemas.JobAnswer, "operations", "care", refusals=(409,), writes=True,
    ),
    Operation("POST", "/backup", Service.make_backup, care_schemas.JobAnswer, "operations", "care", refusals=(409,)),
    Operation(
        "GET", "/backup", Service.get_backup, msgspec.Struct, "operations", "care", media=(BINARY,), refusals=(409,),
    ),
    Operation("DELETE", "/backup", Service.delete_backup, care_schemas.JobAnswer, "operations", "care"),
    Operation(
        "POST", "/change_hasher", Service.change_hasher, care_schemas.JobAnswer, "operations", "care",
        care_schemas.HasherRequest, refusals=(409, *_BODY), writes=True,
    ),
    Operation(
        "POST", "/migrate", Service.migrate, care_schemas.JobAnswer, "operations", "care",
        care_schemas.MigrateRequest, (JSON, NPY), (409, *_BODY), writes=True,
    ),
    Operation(
        "DELETE", "/migration", Service.abandon_migration, care_schemas.JobAnswer, "writing", "care", writes=True,
    ),
    Operation(
        "GET", _CHECKPOINT, Service.get_checkpoint, care_schemas.CheckpointAnswer, "reading", "care",
        refusals=(404, 422),
    ),
    Operation(
        "PUT", _CHECKPOINT, Service.put_checkpoint, care_schemas.CheckpointAnswer, "writing", "care",
        care_schemas.CheckpointRequest, refusals=(404, *_BODY), writes=True,
    ),
)  # fmt: skip
"""The operations of a collection."""
