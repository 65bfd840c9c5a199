"""Answers with an array: JSON, or where the client accepts it an .npy file that is followed by the rest as JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinehash.service import schemas
from onlinehash.service.parsing import JSON, NPY
from onlinehash.types import SearchResult

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class ArrayAnswer:
    """An answer with an array."""

    array: NDArray[Any]
    rest: Any  # all but the array
    whole: Callable[[], Any]  # returns all of it, to be written as JSON

    def write(self, as_array: bool) -> tuple[bytes, str]:
        """Return the content and its media type."""
        if not as_array:
            return _encode(self.whole()), JSON
        file = io.BytesIO()
        np.save(file, self.array, allow_pickle=False)
        file.write(_encode(self.rest))
        return file.getvalue(), NPY


def found_answer(answer: schemas.SearchAnswer, found: SearchResult) -> ArrayAnswer:
    """Return the answer of a search that includes the vectors of the items found: one row per item, in their order."""
    return ArrayAnswer(
        np.concatenate([np.empty((0, found.vectors[0].shape[1]), found.vectors[0].dtype), *found.vectors]),
        answer,
        lambda: msgspec.structs.replace(answer, vectors=[rows.tolist() for rows in found.vectors]),
    )
