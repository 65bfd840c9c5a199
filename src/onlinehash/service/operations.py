"""The operations of the HTTP API: methods, paths, bodies and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from onlinehash.service import insight_schemas as insight
from onlinehash.service import schemas
from onlinehash.service.handlers import Service
from onlinehash.service.media import IMAGES
from onlinehash.service.parsing import ARROW, JSON, NPY

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


_ITEM = "/items/{id:path}"
OPERATIONS = (
    Operation(
        "POST", "/search", Service.search, schemas.SearchAnswer, "", "search",
        schemas.SearchRequest, (JSON, NPY, *IMAGES), (404, *_BODY),
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
        schemas.IdsRequest, refusals=(404, *_BODY),
    ),
    Operation(
        "POST", "/items/list", Service.list_items, schemas.ListAnswer, "reading", "items",
        schemas.ListRequest, refusals=_BODY,
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
        schemas.EncodeRequest, (JSON, NPY), (409, *_BODY),
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
)  # fmt: skip
"""The operations of a collection."""
