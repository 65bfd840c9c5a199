"""Online hashing: learn short binary codes from a stream of labelled vectors, and search them while they change.

Names are imported when they are first used, so that ``import onlinehash`` costs next to nothing.

Examples
--------
>>> import onlinehash as oh
>>> split = oh.load_dataset("digits").split()
>>> hasher = oh.HCOH(n_bits=32, random_state=0).partial_fit(*split.stream)
>>> encoder = hasher.snapshot()
>>> index = oh.FlatIndex(n_bits=32)
>>> index.upsert(encoder.encode(split.database.X))
>>> found = index.search(encoder.encode(split.queries.X), k=10)
>>> found.ids.shape
(200, 10)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlinehash.client import AsyncClient as AsyncClient
    from onlinehash.client import Client as Client
    from onlinehash.codebooks import hadamard_codewords as hadamard_codewords
    from onlinehash.codes import asymmetric_distances as asymmetric_distances
    from onlinehash.codes import hamming_distances as hamming_distances
    from onlinehash.codes import pack_bits as pack_bits
    from onlinehash.codes import pack_signs as pack_signs
    from onlinehash.codes import unpack_bits as unpack_bits
    from onlinehash.codes import unpack_signs as unpack_signs
    from onlinehash.collection import Collection as Collection
    from onlinehash.datasets import load_dataset as load_dataset
    from onlinehash.embedders import Embedder as Embedder
    from onlinehash.encoders import Encoder as Encoder
    from onlinehash.exceptions import OnlineHashError as OnlineHashError
    from onlinehash.hashers import BSODH as BSODH
    from onlinehash.hashers import FOH as FOH
    from onlinehash.hashers import FROSH as FROSH
    from onlinehash.hashers import HCOH as HCOH
    from onlinehash.hashers import HMOH as HMOH
    from onlinehash.hashers import HROH as HROH
    from onlinehash.hashers import ITQ as ITQ
    from onlinehash.hashers import LSH as LSH
    from onlinehash.hashers import OKH as OKH
    from onlinehash.hashers import OSH as OSH
    from onlinehash.hashers import SDOHHC as SDOHHC
    from onlinehash.hashers import AdaptHash as AdaptHash
    from onlinehash.hashers import MIHash as MIHash
    from onlinehash.hashers import OnlineHasher as OnlineHasher
    from onlinehash.hashers import SketchHash as SketchHash
    from onlinehash.hashers import load_hasher as load_hasher
    from onlinehash.hashers import make_hasher as make_hasher
    from onlinehash.hashers import register_hasher as register_hasher
    from onlinehash.indexes import FlatIndex as FlatIndex
    from onlinehash.metrics import Ranking as Ranking
    from onlinehash.metrics import mean_average_precision as mean_average_precision
    from onlinehash.tables import to_frame as to_frame
    from onlinehash.types import SearchResult as SearchResult

__version__ = "0.3.0.dev0"

_NAMES = {
    "client": "AsyncClient Client",
    "codebooks": "hadamard_codewords",
    "codes": "asymmetric_distances hamming_distances pack_bits pack_signs unpack_bits unpack_signs",
    "collection": "Collection",
    "datasets": "load_dataset",
    "embedders": "Embedder",
    "encoders": "Encoder",
    "exceptions": "OnlineHashError",
    "hashers": "AdaptHash BSODH FOH FROSH HCOH HMOH HROH ITQ LSH MIHash OKH OSH SDOHHC SketchHash "
    "OnlineHasher load_hasher make_hasher register_hasher",
    "indexes": "FlatIndex",
    "metrics": "Ranking mean_average_precision",
    "tables": "to_frame",
    "types": "SearchResult",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {*_NAMES, "checks", "experiments", "features", "service", "streams"}

# Without the extra that the clients need, a star import still works.
__all__ = ["__version__", *(name for name in _HOMES if _HOMES[name] != "client")]  # noqa: PLE0604 (names of _HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"onlinehash.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"onlinehash.{name}")
    raise AttributeError(f"module 'onlinehash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})
