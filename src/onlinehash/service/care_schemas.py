"""Bodies of requests and answers of a collection's care."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from onlinehash.service.schemas import LAST, Ids, Positive, Vectors

JobName = Literal["backup", "check", "compact", "change_hasher", "migrate"]


class CheckRequest(Struct, forbid_unknown_fields=True):
    """How much to check."""

    sample: Annotated[int, Meta(ge=0, le=LAST, description="Items whose codes are computed again, about.")] = 1000


class HasherRequest(Struct, forbid_unknown_fields=True):
    """A hasher; without a method, the present one with another number of bits."""

    method: Annotated[str | None, Meta(description="Name of the hasher.", examples=["hroh"])] = None
    n_bits: Positive | None = None
    params: Annotated[dict[str, Any], Meta(description="Its other parameters.", examples=[{"random_state": 0}])] = {}


class MigrateRequest(HasherRequest):
    """New vectors of items, or the name of an embedder; a hasher with the first request, if it is to be another."""

    ids: Ids | None = None
    vectors: Vectors | None = None
    embed: Annotated[
        str | None, Meta(description="Embedder that needs no model to be loaded.", examples=["char_ngrams"])
    ] = None


class CheckpointRequest(Struct, forbid_unknown_fields=True):
    """A JSON value."""

    value: Any


class JobAnswer(Struct):
    """State of a job."""

    number: Annotated[int, Meta(description="Of the jobs of this service, from 1 on; 0 if there was none.")]
    job: JobName | None
    state: Literal["none", "running", "done", "failed"]
    progress: Annotated[float, Meta(description="From 0 to 1.")] = 0.0
    result: Annotated[
        dict[str, Any] | None,
        Meta(
            description="backup: n_bytes, sha256. check: problems, n_items, n_codes, n_encoded. compact: n_bytes "
            "given back. migrate: complete, n_done, n_items."
        ),
    ] = None
    error: Annotated[str | None, Meta(description="Why it failed.")] = None


class CheckpointAnswer(Struct):
    """A JSON value."""

    value: Any
