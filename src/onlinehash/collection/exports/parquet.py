"""A Parquet file with columns ``id`` and ``code``, of bytes; its metadata name bits, version and method."""

from __future__ import annotations

from pathlib import Path

from onlinehash._files import whole_file
from onlinehash.collection.exports import Coded
from onlinehash.exceptions import MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write the columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError.of("pyarrow", "arrow") from error
    width = coded.codes.shape[1]
    codes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(coded.ids), [None, pa.py_buffer(coded.codes.tobytes())]
    )
    about = {f"onlinehash.{name}": text for name, text in coded.about().items()}
    table = pa.table({"id": coded.ids, "code": codes}).replace_schema_metadata(about)
    with whole_file(path) as file:
        pq.write_table(table, file)
