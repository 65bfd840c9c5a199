"""A table of LanceDB with columns ``id`` and ``code``, searched by ``distance_type("hamming")``."""

from __future__ import annotations

from pathlib import Path

from onlinehash.collection.exports import Coded
from onlinehash.exceptions import DataNotFoundError, MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write a table of the database that is the folder; it replaces an earlier one as its next version."""
    try:
        import lancedb
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError.of("lancedb", "lancedb") from error
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    codes = pa.FixedSizeListArray.from_arrays(pa.array(coded.codes.ravel()), coded.codes.shape[1])
    about = {f"onlinehash.{name}": text for name, text in coded.about().items()}
    table = pa.table({"id": coded.ids, "code": codes}).replace_schema_metadata(about)
    lancedb.connect(path.parent).create_table(path.stem, table, mode="overwrite")
