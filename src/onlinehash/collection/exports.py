"""Codes of a collection, with their ids, in the files of other programs: one function per format."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file, write_bytes
from onlinehash.collection.collection import Collection
from onlinehash.collection.types import Id
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, NotLearnedError, needs_extra
from onlinehash.types import Codes


class Coded(NamedTuple):
    """Ids, their packed codes, and the encoder that made them."""

    ids: list[Id]
    codes: Codes
    encoder: Encoder

    def integers(self, path: Path, *, lowest: int) -> NDArray[np.int64]:
        """Return integer ids as they are; others as positions, with the ids by line in a file beside ``path``."""
        beside = path.with_name(f"{path.stem}.ids.jsonl")
        numbers = [id for id in self.ids if isinstance(id, int)]
        if numbers and min(numbers) >= lowest:
            beside.unlink(missing_ok=True)  # of an earlier export
            return np.array(numbers, np.int64)
        write_bytes(beside, "".join(f"{json.dumps(id)}\n" for id in self.ids).encode())
        return np.arange(len(self.ids))

    def about(self) -> dict[str, str]:
        """Return what describes the codes, as text."""
        encoder = self.encoder
        return {"n_bits": str(encoder.n_bits), "version": str(encoder.version), "method": encoder.method}


def export_codes(collection: Collection, path: str | os.PathLike[str]) -> int:
    """Write the codes of a collection for another program, and return their number.

    The encoder that made them is written beside them: of ``a.faiss``, to ``a.encoder.oh``.

    Parameters
    ----------
    collection : Collection
    path : path
        Its ending names the format.

        - ``.faiss``: an ``IndexBinaryIDMap``.
        - ``.usearch``: a graph, by Hamming distance.
        - ``.npz``: arrays ``ids``, ``codes``, ``n_bits``, ``version``.
        - ``.parquet``: columns ``id`` and ``code``, of bytes.
        - ``.lance``: a table of LanceDB, whose database is the folder, with columns ``id`` and ``code``.
        - ``.sqlite``: a table ``codes`` of sqlite-vec, with columns ``id`` and ``code``.

        In faiss and usearch ids are integers. Strings (for usearch, also negative integers) are written to a file
        beside, ``a.ids.jsonl``, one id per line; ids are then positions from 0. Codes have whole bytes; the bits that
        fill up the last one are zero, and change no distance.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Collection.open(Path(folder, "pets.oh"), "hcoh") as pets:
    ...     pets.upsert([7, 9], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
    ...     export_codes(pets, Path(folder, "codes.npz"))
    ...     sorted(path.name for path in Path(folder).glob("codes*"))
    2
    ['codes.encoder.oh', 'codes.npz']
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise FileFormatError(f"{path} has the extension {target.suffix!r}; use one of {', '.join(FORMATS)}.")
    ids, codes, encoder = collection.codes_and_encoder()
    if encoder is None or not ids:
        raise NotLearnedError("This collection has no codes yet; add items with labels first.")
    write, package, extra = FORMATS[ending]
    with needs_extra(package, extra):
        write(target, Coded(ids, codes, encoder))
    encoder.save(target.with_name(f"{target.stem}.encoder.oh"))
    return len(ids)


def _write_faiss(path: Path, coded: Coded) -> None:
    import faiss

    index = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(8 * coded.codes.shape[1]))
    index.add_with_ids(coded.codes, coded.integers(path, lowest=-(1 << 63)))
    write_bytes(path, faiss.serialize_index_binary(index).tobytes())


def _write_usearch(path: Path, coded: Coded) -> None:
    from usearch.index import Index

    index = Index(ndim=coded.encoder.n_bits, metric="hamming", dtype="b1")
    numbers = coded.integers(path, lowest=0).astype(np.uint64)
    index.add(numbers, coded.codes, threads=1)  # with more threads the graph differs from run to run
    write_bytes(path, bytes(index.save() or b""))


def _write_npz(path: Path, coded: Coded) -> None:
    encoder, ids = coded.encoder, np.array(coded.ids)
    if ids.tolist() != list(coded.ids):
        raise InvalidInputError("Some ids end in a NUL, which NumPy drops; write the codes to a .parquet file.")
    with whole_file(path) as file:
        np.savez(file, ids=ids, codes=coded.codes, n_bits=encoder.n_bits, version=encoder.version)


def _write_parquet(path: Path, coded: Coded) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width, content = coded.codes.shape[1], pa.py_buffer(coded.codes.tobytes())
    codes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(coded.ids), [None, content])
    with whole_file(path) as file:
        pq.write_table(_arrow_table(coded, codes), file)


def _write_lance(path: Path, coded: Coded) -> None:
    """Write a table of the database that is the folder; it replaces an earlier one as its next version."""
    import lancedb
    import pyarrow as pa

    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    codes = pa.FixedSizeListArray.from_arrays(pa.array(coded.codes.ravel()), coded.codes.shape[1])
    lancedb.connect(path.parent).create_table(path.stem, _arrow_table(coded, codes), mode="overwrite")


def _arrow_table(coded: Coded, codes: Any) -> Any:
    import pyarrow as pa

    about = {f"onlinehash.{name}": text for name, text in coded.about().items()}
    return pa.table({"id": coded.ids, "code": codes}).replace_schema_metadata(about)


def _write_sqlite_vec(path: Path, coded: Coded) -> None:
    """Write with apsw: the sqlite3 of many builds of Python cannot load extensions."""
    import apsw
    import sqlite_vec

    kind, width = "integer" if isinstance(coded.ids[0], int) else "text", coded.codes.shape[1]
    rows = ((id, code.tobytes()) for id, code in zip(coded.ids, coded.codes, strict=True))
    with whole_file(path) as file, closing(apsw.Connection(file.name)) as connection:
        connection.pragma("journal_mode", "MEMORY")  # no second file; one that is not complete is dropped
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        with connection:
            connection.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
            connection.executemany("INSERT INTO about VALUES (?, ?)", coded.about().items())
            connection.execute(f"CREATE VIRTUAL TABLE codes USING vec0(id {kind} PRIMARY KEY, code bit[{8 * width}])")
            connection.executemany("INSERT INTO codes VALUES (?, vec_bit(?))", rows)


FORMATS = {
    ".faiss": (_write_faiss, "faiss", "faiss"),
    ".usearch": (_write_usearch, "usearch", "usearch"),
    ".npz": (_write_npz, "numpy", ""),
    ".parquet": (_write_parquet, "pyarrow", "arrow"),
    ".lance": (_write_lance, "lancedb", "lancedb"),
    ".sqlite": (_write_sqlite_vec, "sqlite-vec", "sqlite-vec"),
}
"""By the ending of the path: what writes a file, whole or not at all; the package it needs, and the extra with that."""
