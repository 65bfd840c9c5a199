"""What a file of ours is: a collection, a hasher, an encoder or an index. Most of them end in .oh."""

from __future__ import annotations

from pathlib import Path

from onlinehash._files import read_header
from onlinehash.exceptions import FileFormatError

_USES = {
    "collection": "onlinehash collection search {0} ..., or onlinehash collection export {0} codes.npz --codes",
    "hasher": "onlinehash encode {0} ..., or onlinehash search ITEMS QUERIES --model {0}",
    "encoder": "onlinehash encode {0} ..., or onlinehash search ITEMS QUERIES --model {0}",
    "index": "onlinehash search {0} QUERIES",
}
OURS = (".oh", ".ohi")


def kind_of(path: Path) -> str | None:
    """Return "collection", "hasher", "encoder" or "index"; None for any other file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            return "collection"
    try:
        return str(read_header(path, *_USES)["kind"])
    except FileFormatError:
        return None


def refuse_other_kinds(path: Path, *wanted: str) -> None:
    """Raise if the file is of ours, but of another kind, and name the command that takes it."""
    kind = kind_of(path)
    if kind is None or kind in wanted:
        return
    article = "an" if kind[0] in "aeiou" else "a"
    raise FileFormatError(f"{path} is {article} {kind}; use: {_USES[kind].format(path)}")
