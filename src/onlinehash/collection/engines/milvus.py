"""MilvusEngine: codes in Milvus, which searches them."""

from __future__ import annotations

import re

from onlinehash.collection.engines import Engine
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes import Index
from onlinehash.indexes.engines.milvus import MilvusConnection, MilvusIndex

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


class MilvusEngine(Engine):
    """Keep the codes of a collection in Milvus: one collection there per generation, ``<name>_<number>``.

    Only collections of generations that ``<name>_generations`` names are ever dropped. When a collection is opened, the
    ids in Milvus are compared with the store, and what differs is repaired.

    The options are the address of a server or the file of Milvus Lite, and ``#name`` if names in
    Milvus do not begin with the name of the collection. One process follows under one name.
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
        self._uri, self._name, self._milvus = uri, name, MilvusConnection(uri)
        self._open: dict[int, MilvusIndex] = {}
        try:
            self._milvus.create(f"{name}_generations", 8, "onlinehash: generations")
        except BaseException:
            self._milvus.close()
            raise

    def __repr__(self) -> str:
        return f"<MilvusEngine {self._name!r} in {self._milvus.place}>"

    def open(self, number: int, n_bits: int) -> Index:
        """Return the index of a generation, with what it holds already."""
        if number not in self._open:
            if not self._milvus.has(f"{self._name}_{number}"):  # from now on it is ours to drop
                self._milvus.put(f"{self._name}_generations", [{"id": number, "code": b"\0"}])
            self._open[number] = MilvusIndex(n_bits, self._uri, name=f"{self._name}_{number}", ties="hash")
        return self._open[number]

    def keep(self, number: int) -> None:
        """Drop the other generations."""
        for row in self._milvus.find(f"{self._name}_generations", [f"id != {number}"], ["id"]):
            index = self._open.pop(int(row["id"]), None)
            if index is not None:
                index.close()
            self._milvus.drop(f"{self._name}_{row['id']}")
        self._milvus.delete(f"{self._name}_generations", [f"id != {number}"])

    def close(self) -> None:
        """Close the connections; the codes stay in Milvus."""
        for index in self._open.values():
            index.close()
        self._milvus.close()
