"""The methods of the clients; those of several requests are in ``_calls`` and ``_care_calls``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import quote

from numpy.typing import ArrayLike

from onlinehash import _calls as calls
from onlinehash import _care_calls as care
from onlinehash._call import Call, one
from onlinehash._transport import Transport
from onlinehash._validation import check_positive_int
from onlinehash.collection.check import CheckReport
from onlinehash.collection.history import History
from onlinehash.collection.insight import Codewords, ItemMap
from onlinehash.collection.types import Id, Item, ItemPage, Label, Stats
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Codes, Progress, SearchResult


def _nothing(answer: Any) -> None:
    """Return nothing of an answer."""


class ClientMethods:
    """The methods of a collection, each sent by a transport; one for an event loop returns what is to be awaited."""

    _http: Transport

    # ------------------------------------------------------------------ changing

    def upsert(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = None,
        payload: Any = None,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`.

        Parameters
        ----------
        ids : int or str, or several
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            One label, or list of labels, per item.
        payload : optional
            One JSON value per item.
        documents : optional
            Instead of vectors, one text per item, if the service has an embedder.
        checkpoint : mapping of str to JSON value, optional
            JSON committed in the same transaction as the items; with the last batch, if there are several.
        """
        return self._http.run(calls.upsert(ids, vectors, labels, payload, documents, checkpoint))

    def update(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = ...,
        payload: Any = ...,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`.

        Parameters
        ----------
        ids, vectors, labels, payload, documents, checkpoint
            As for :meth:`upsert`.
        """
        return self._http.run(calls.update(ids, vectors, labels, payload, documents, checkpoint))

    def delete(
        self,
        ids: Any = None,
        *,
        where: Any = None,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete items, and return their number.

        Parameters
        ----------
        ids : int or str, or several
        where : mapping
            Instead of ids: delete all items whose payload passes, as for :meth:`Collection.search`.
        missing : "raise" or "ignore", default="raise"
            With "raise", nothing of a batch is deleted if any of its ids is unknown.
        unlearn : bool, default=False
            Also remove the items from what the hasher has learned; supported by HROH.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        return self._http.run(calls.delete(ids, where, missing, unlearn, checkpoint))

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`.

        Parameters
        ----------
        path : str
        """
        return self._http.run(one(calls.change("POST", "/indexes", {"path": path}), _nothing))

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload.

        Parameters
        ----------
        path : str
        """
        return self._http.run(one(calls.change("DELETE", f"/indexes/{quote(path, safe='')}"), _nothing))

    # ------------------------------------------------------------------ reading

    def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : int or str, or several
        """
        return self._http.run(calls.get(ids))

    def page(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: Id | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ItemPage:
        """Return some items and a cursor for those that follow, as :meth:`Collection.page`.

        Parameters
        ----------
        labels, where, order, descending, after, cursor, limit
        """
        return self._http.run(calls.page(labels, where, order, descending, after, cursor, limit))

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        call = Call("POST", "/items/count", {"where": where, "labels": calls.plain(labels)})
        return self._http.run(one(call, lambda answer: int(answer["n_items"])))

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return self._http.run(one(Call("GET", "/indexes"), lambda answer: list(answer["indexes"])))

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        rescore: str | None = None,
        asymmetric: bool = False,
        include: Sequence[str] = (),
        after: SearchResult | str | None = None,
    ) -> SearchResult:
        """Find the k nearest items of every query, as :meth:`Collection.search`.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one text or a list of them, or the bytes of one image, if the service has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search only items that have any of these labels.
        ids : several ids, optional
            Search only these items.
        where, rescore, asymmetric, include, after
            As for :meth:`Collection.search`.
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return self._http.run(calls.search(vectors, options, labels, ids, where, include, after))

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        include: Sequence[str] = (),
    ) -> SearchResult:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`.

        Parameters
        ----------
        vectors, labels, ids, where, include
            As for :meth:`search`.
        radius : int
        """
        return self._http.run(calls.search(vectors, {"radius": radius}, labels, ids, where, include))

    def search_by_id(self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        return self._http.run(calls.search_by_id(ids, k, labels, rescore))

    def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use.

        Parameters
        ----------
        vectors : array-like of shape (n_vectors, n_features), or (n_features,) for one
        """
        return self._http.run(calls.encode(vectors))

    def label_counts(self, where: Any = None) -> dict[Label | None, int]:
        """Return the number of items per label, None for items without, as :meth:`Collection.label_counts`.

        Parameters
        ----------
        where : mapping, optional
        """
        call = Call("GET", "/label_counts") if where is None else Call("POST", "/label_counts", {"where": where})
        return self._http.run(one(call, calls.label_counts))

    def stats(self) -> Stats:
        """Return statistics of the collection."""
        names = [field.name for field in fields(Stats)]
        return self._http.run(
            one(Call("GET", "/stats"), lambda answer: Stats(**{name: answer[name] for name in names}))
        )

    def map(self, limit: int = 2000) -> ItemMap:
        """Return a random sample of the items in the plane, as :meth:`Collection.map`.

        Parameters
        ----------
        limit : int, default=2000
        """
        return self._http.run(one(Call("POST", "/map", {"limit": limit}), calls.item_map))

    def codewords(self) -> Codewords:
        """Return the bits of the largest classes, as :meth:`Collection.codewords`."""
        return self._http.run(one(Call("GET", "/codewords"), calls.codewords))

    def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, as :meth:`Collection.history`."""
        return self._http.run(one(Call("GET", "/history"), calls.history))

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use; raise if the refresh fails.
        """
        return self._http.run(calls.refresh(wait))

    # ------------------------------------------------------------------ care

    def checkpoint(self, name: str) -> Any:
        """Return what a change last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        call = Call("GET", f"/checkpoints/{quote(name, safe='')}")
        return self._http.run(one(call, lambda answer: answer["value"]))

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = care.silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection.

        The service copies the collection as it is at one moment, and checks the copy. It takes its place here when all
        of it has come and its digest is right; an older backup stays until then. A read key is enough.

        Parameters
        ----------
        path : path
            A new file, or an older backup that is not open for writing. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.backup(path, progress))

    def check(self, *, sample: int = 1000, progress: Progress = care.silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong, as :meth:`Collection.check`.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.check(sample, progress))

    def compact(self, *, progress: Progress = care.silent) -> int:
        """Give unused space back to the disk, and return the number of bytes, as :meth:`Collection.compact`.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.compact(progress))

    def change_hasher(self, hasher: OnlineHasher | str | int, *, progress: Progress = care.silent) -> None:
        """Learn with another hasher, and encode all items again, as :meth:`Collection.change_hasher`.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            Of a hasher, the name and the parameters are sent, not what it has learned.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.change_hasher(hasher, progress))

    def migrate(
        self,
        *,
        embed: str | None = None,
        vectors: Iterable[tuple[Id, ArrayLike]] | None = None,
        hasher: OnlineHasher | str | None = None,
        progress: Progress = care.silent,
    ) -> None:
        """Move to another embedding model, of any width, as :meth:`Collection.migrate`.

        Parameters
        ----------
        embed : str, optional
            Name of an embedder that needs no model to be loaded, such as ``"char_ngrams:512"``.
        vectors : iterable of (id, vector), optional
            New vectors of all items.
        hasher : hasher or name of one, optional
            By default one like the present one.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.migrate(embed, vectors, hasher, progress))

    def abandon_migration(self) -> None:
        """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
        return self._http.run(one(Call("DELETE", "/migration"), _nothing))
