"""MilvusEngine: codes in Milvus, which searches them."""

from __future__ import annotations

import re

from onlinehash.collection.engines import Engine
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes import Index
from onlinehash.indexes.engines.milvus import MilvusIndex
from onlinehash.indexes.engines.milvus_client import INTEGER, Milvus, code

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


class MilvusEngine(Engine):
    """Keep the codes of a collection in Milvus: one collection there per generation, under an alias.

    The collection ``<name>_seen`` holds the sequence number of the last change that each generation has seen; only
    collections of generations named there are ever dropped. Milvus has no transactions: a process that was interrupted
    compares the ids there with the store, and repairs what differs.

    The options are the address of a server or the file of Milvus Lite, and ``#name`` if the alias, which begins all
    names in Milvus, is not the name of the collection. One process follows under one name.
    """

    is_shared = takes_options = True

    def __init__(self, options: str, name: str) -> None:
        uri, _, own = options.partition("#")
        name = own or re.sub(r"\W", "_", name, flags=re.ASCII)
        if not uri:
            raise InvalidInputError(
                "search='milvus' names no server; use 'milvus:http://host:19530' or 'milvus:codes.db'."
            )
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"search={f'milvus:{options}'!r}: {name!r} is not a name for Milvus; put one behind '#': letters, "
                "digits and _, at most 100, the first not a digit."
            )
        self._uri, self._name, self._milvus = uri, name, Milvus(uri)
        self._open: dict[int, MilvusIndex] = {}
        try:
            self._milvus.create(f"{name}_seen", {"id": INTEGER, "seq": INTEGER, "code": code(8)}, "onlinehash: changes")
        except BaseException:
            self._milvus.close()
            raise

    def __repr__(self) -> str:
        return f"<MilvusEngine {self._name!r} in {self._milvus.place}>"

    def open(self, number: int, n_bits: int, built: Index | None = None) -> Index:
        """Return the index of a generation, with what it holds already."""
        if number not in self._open:
            if not self._milvus.has(f"{self._name}_{number}"):
                self.mark(number, 0)  # from now on it is ours to drop
            self._open[number] = MilvusIndex(n_bits, self._uri, name=f"{self._name}_{number}")
        return self._open[number]

    def seen(self, number: int) -> int:
        """Return the sequence number of the last change that a generation has seen."""
        found = self._milvus.find(f"{self._name}_seen", [f"id == {number}"], ["id", "seq"])
        return int(found[0]["seq"]) if found else 0

    def mark(self, number: int, seq: int) -> None:
        """Remember the sequence number of the last change of a generation."""
        self._milvus.put(f"{self._name}_seen", [{"id": number, "seq": seq, "code": b"\0"}])

    def keep(self, number: int) -> None:
        """Point the alias at a generation, and drop the others."""
        self._milvus.point(self._name, f"{self._name}_{number}")
        for row in self._milvus.find(f"{self._name}_seen", [f"id != {number}"], ["id"]):
            index = self._open.pop(int(row["id"]), None)
            if index is not None:
                index.close()
            self._milvus.drop(f"{self._name}_{row['id']}")
        self._milvus.delete(f"{self._name}_seen", [f"id != {number}"])

    def close(self) -> None:
        """Close the connections; the codes stay in Milvus."""
        for index in self._open.values():
            index.close()
        self._milvus.close()
