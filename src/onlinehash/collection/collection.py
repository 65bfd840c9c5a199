"""Collection: durable items, searched while their hash functions change."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_choice
from onlinehash.collection import _validation as check
from onlinehash.collection.care import CollectionCare
from onlinehash.collection.code_index import CodeIndex
from onlinehash.collection.engines import open_engine
from onlinehash.collection.filters import PAYLOAD_CHANGES
from onlinehash.collection.ids import check_item_ids, is_single
from onlinehash.collection.insight import WithInsight
from onlinehash.collection.learner import Learner, as_hasher, name_features
from onlinehash.collection.migration import MigratingCollection
from onlinehash.collection.prequential import WithPrequentialQuality
from onlinehash.collection.refresh import Policy, WhenIdle, pack_policy, unpack_policy
from onlinehash.collection.store_index import StoreIndex
from onlinehash.collection.stores import open_store
from onlinehash.collection.stores.protocol import Position, Rows, SearchingStore
from onlinehash.embedders import as_embedder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, OnlineHashError, StorageError
from onlinehash.hashers import OnlineHasher

_log = logging.getLogger(__name__)


class Collection(CollectionCare, MigratingCollection, WithPrequentialQuality, WithInsight):
    """Items in one file or in PostgreSQL, learned from as they come, and searched by their codes at any time.

    A collection lives in the process that opens it. What :meth:`upsert` has returned from survives the end of the
    process and of the power. The hasher learns from every item with a label (from every item, if it is unsupervised).
    Codes belong to a generation: the encoder that made them, which also encodes the queries. When the hasher has
    learned enough since, which the refresh policy decides, and when no more items come, a background thread encodes all
    items again from the stored vectors and takes the new codes into use at once; searches and changes go on meanwhile.

    Collections are opened with :meth:`open`. One process writes; others may read with ``readonly=True``. Within a
    process all methods may be called from any thread: changes happen one after the other, searches in parallel.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> X, y = oh.load_dataset("digits").split().stream
    >>> folder = TemporaryDirectory()
    >>> digits = oh.Collection.open(f"{folder.name}/digits.oh", oh.HCOH(random_state=0))
    >>> digits.upsert(range(1000), X[:1000], y[:1000])
    >>> digits.upsert(5000, X[1000], y[1000], payload={"title": "a digit"})
    >>> len(digits), digits.get(5000)[0].payload
    (1001, {'title': 'a digit'})
    >>> found = digits.search(X[1000], k=3, labels=7)
    >>> {item.labels for item in digits.get(found.ids)}
    {7}
    >>> digits.close()
    >>> folder.cleanup()
    """

    # ------------------------------------------------------------------ opening and closing

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        hasher: OnlineHasher | str | None = None,
        refresh: Policy | None = None,
        *,
        vector_dtype: str | None = None,
        readonly: bool = False,
        store: str | None = None,
        search: str | None = None,
        embed: Any = None,
        keep_documents: bool | None = None,
    ) -> Self:
        """Open a collection; create it if there is none.

        A refresh that was interrupted goes on in the background.

        Parameters
        ----------
        path : path of the file
            Two more, ending in ``-wal`` and ``-shm``, appear beside it while it is open, and a ``.lock``. With a
            store, the name of the collection: letters, digits and ``_``.
        hasher : hasher or name of one, optional
            Needed to create. The collection learns on a copy. For a collection that exists, it must be the one it has;
            :meth:`change_hasher` changes it.
        refresh : WhenIdle, WhenDrifted, WhenInformative, Every or Never, optional
            When to encode all items again; stored in the collection. ``WhenIdle(WhenDrifted())`` when created.
        vector_dtype : "float32" or "float16", optional
            Precision of the stored vectors; "float32" when created.
        readonly : bool, default=False
            See what another process commits; changes are refused.
        store : str, optional
            Where the items are stored, if not in a file: ``"postgresql://user@host/database"``.
        search : str, optional
            What searches the codes: ``"memory"``, ``"faiss"``, ``"milvus:http://host:19530"`` or ``"milvus:codes.db"``.
            By default memory for a file, and PostgreSQL for items that are stored there.
        embed : name, callable or model, optional
            Embeds documents: ``"char_ngrams"``, ``f(list) -> array``, an object with ``transform`` or ``encode``; see
            :mod:`onlinehash.embedders`. The collection remembers its name and refuses another. Not needed again if it
            was given by name.
        keep_documents : bool, optional
            Whether documents are kept, in the field ``"document"`` of the payload; stored in the collection. True when
            created: :meth:`migrate` can then embed them again.
        """
        given = None if hasher is None else as_hasher(hasher)
        packed = None if refresh is None else pack_policy(refresh)
        embedder = None if embed is None else as_embedder(embed)  # before a file is created
        if vector_dtype is not None:
            check_choice("vector_dtype", vector_dtype, ("float32", "float16"))
        with ExitStack() as opened:  # closes it again after an error
            kept = opened.enter_context(closing(open_store(path, store, readonly=readonly, create=given is not None)))
            index: CodeIndex | StoreIndex
            if search is None and isinstance(kept, SearchingStore):
                index = StoreIndex(kept)
            else:
                index = CodeIndex(kept, open_engine(search or "memory", Path(path).stem))
            opened.callback(index.close)
            is_new = kept.setting("vector_dtype") is None
            if is_new:
                if given is None:
                    raise DataNotFoundError("There is no collection in this place yet; pass a hasher to create it.")
                with kept.writing():
                    kept.put_setting("vector_dtype", vector_dtype or "float32")
                    kept.put_setting("refresh", packed or pack_policy(WhenIdle()))
                    kept.put_setting(PAYLOAD_CHANGES, 0)
                    Learner(kept).replace(given, 0)
            stored_dtype = kept.setting("vector_dtype")
            if vector_dtype not in (None, stored_dtype):
                raise InvalidInputError(f"vector_dtype={vector_dtype!r}, but {path} stores {stored_dtype}.")
            collection = cls(kept, index, refresh or unpack_policy(kept.setting("refresh")))
            if readonly:
                collection._catch_up()
            else:
                collection._read()
                collection._learner.check_recipe(None if is_new else hasher)
            collection._documents.use(embedder, keep_documents)
            if not readonly:
                if packed not in (None, kept.setting("refresh")):
                    with kept.writing():
                        kept.put_setting("refresh", packed)
                collection._reencoder.after_change()
            opened.pop_all()
        return collection

    def close(self, *, refresh: bool | None = None) -> None:
        """Write the hasher's state and release the file.

        Parameters
        ----------
        refresh : bool, optional
            Refresh stale codes first. By default a collection with the policy :class:`WhenIdle` does. Without it, what
            is pending is left to the next writer, and logged.
        """
        if self._process != os.getpid():  # what a forked process inherits is not its own to close
            self._closed = True
            return
        reencoder = self._reencoder
        wanted = reencoder.is_on_idle if refresh is None else refresh
        if wanted and not (self._closed or self._store.readonly):
            try:
                with self._exclusive():  # not while a refresh is about to begin
                    pending = reencoder.is_pending()
                if refresh or pending:
                    self.refresh()
            except OnlineHashError as error:
                _log.warning("The refresh before closing failed: %s", error)
        reencoder.halt()
        with self._changes:
            if self._closed:
                return
            self._closed = True
            with suppress(StorageError):  # no loss: what the hasher has learned is learned again
                self._save_hasher()
            self._learner.hasher = None
            self._index.close()
            self._store.close()
        if reencoder.is_on_idle and not self._store.readonly and reencoder.is_pending():
            _log.warning(
                "Closed with codes that do not know %d of %d learned instances; the next writer refreshes them.",
                self._learner.n_learned - reencoder.version(),
                self._learner.n_learned,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(refresh=None if kind is None else False)

    def __repr__(self) -> str:
        return "<Collection, closed>" if self._closed else f"<Collection of {len(self)} items>"

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
        """Insert items, or replace those with the same ids; learn from them and make them searchable.

        The call is applied as a whole, durably, or not at all.

        Parameters
        ----------
        ids : int or str, or several
            All integers or all strings in one collection.
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            One label per item, integers or strings, as :meth:`OnlineHasher.partial_fit` takes them; None or NaN for an
            item without. Several labels per item are lists. For one id: its label, or a list of them.
        payload : optional
            One small JSON value per item, in a list; for one id, the value itself.
        documents : optional
            Instead of vectors, if the collection has an embedder: one document per item, in a list; for one id, the
            document itself.
        checkpoint : mapping of str to JSON value, optional
            JSON committed in the same transaction as the items, such as the position in a stream that they came from.
            Read it with :meth:`checkpoint`.
        """
        single = is_single(ids)
        given, n_migrations = (vectors, documents, payload, single), self._n_migrations
        vectors, payload = self._documents.columns(*given)
        with self._writing():
            if documents is not None and n_migrations != self._n_migrations:
                vectors, payload = self._documents.columns(*given)
            listed = check_item_ids(ids, self.id_type, ordered=True)
            noted = check.checkpoint_settings(checkpoint)
            if not listed:
                with self._store.writing():
                    self._put_settings(noted)
                return
            n_rows = len(listed)
            names = check.check_names(vectors, self._store)
            rows = self._check_vectors(vectors, n_rows, single)
            column = check.check_label_column(labels, n_rows, single, self.label_kind)
            payloads = check.payload_texts(payload, n_rows, single)
            if self._quality is not None:
                self._search_before_learning(self._quality, listed, rows, column)
            with self._learner as hasher:
                self._learner.learn(hasher, rows, column)
                new = Rows(listed, self._next_seqs(n_rows), rows, column.texts, payloads)
                self._put(hasher, new, {"label_kind": column.type, **names, **noted})
            self._reencoder.after_change()

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
        """Change what is given of existing items; the hasher learns from them again if vectors or labels are given.

        Parameters
        ----------
        ids, vectors, labels, payload, documents, checkpoint
            As for :meth:`upsert`. If an id is unknown, nothing changes. A document that is kept in the payload stays
            there, unless another is given.
        """
        with self._writing():
            single = is_single(ids)
            listed = self._demand_known(check_item_ids(ids, self.id_type, ordered=True))
            noted = check.checkpoint_settings(checkpoint)
            if not listed:
                with self._store.writing():
                    self._put_settings(noted)
                return
            old = self._store.rows(listed)
            rows, texts, payloads, kind = old.vectors, old.labels, old.payloads, self.label_kind
            if documents is not None:
                vectors, payload = self._documents.changed(vectors, documents, payload, single, payloads)
            names = {} if vectors is None else check.check_names(vectors, self._store)
            if vectors is not None:
                rows = self._check_vectors(vectors, len(listed), single)
            if labels is not ...:
                column = check.check_label_column(labels, len(listed), single, kind)
                texts, kind = column.texts, column.type
            if payload is not ...:
                payloads = self._documents.kept(payloads, check.payload_texts(payload, len(listed), single))
            if vectors is not None or labels is not ...:
                new = Rows(listed, self._next_seqs(len(listed)), rows, texts, payloads)
                with self._learner as hasher:
                    self._learner.learn_again(hasher, new)
                    self._put(hasher, new, {"label_kind": kind, **names, **noted})
                self._reencoder.after_change()
            else:
                with self._store.writing():
                    self._put_settings(noted)
                    if payload is not ...:
                        self._store.put_payloads(listed, payloads)
                        self._store.put_setting(PAYLOAD_CHANGES, self._store.setting(PAYLOAD_CHANGES, 0) + 1)

    def delete(
        self,
        ids: Any = None,
        *,
        where: Any = None,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete items, and return their number. What was learned from them stays learned, unless it is unlearned too.

        Parameters
        ----------
        ids : int or str, or several
        where : mapping
            Instead of ids: delete all items whose payload passes, as for :meth:`search`.
        missing : "raise" or "ignore", default="raise"
            What to do about unknown ids; if it raises, nothing is deleted.
        unlearn : bool, default=False
            Unlearn them too, exactly, which HROH can and others refuse. The codes of the other items do not change
            until the next refresh. What was learned from versions of an item that were replaced since stays.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        check_choice("missing", missing, ("raise", "ignore"))
        with self._writing():
            if (ids is None) == (where is None):
                raise InvalidInputError("delete takes ids or where, one of the two.")
            listed = check_item_ids(ids, self.id_type) if where is None else self._passing_ids(where)
            noted = check.checkpoint_settings(checkpoint)
            if missing == "raise":
                self._demand_known(listed)
            else:
                listed = [id for id, seq in zip(listed, self._store.seqs(listed), strict=True) if seq is not None]
            if not listed:
                with self._store.writing():
                    self._put_settings(noted)
                return 0
            first, last = self._position.seq + 1, self._position.seq + len(listed)
            with self._learner as hasher:
                if unlearn:
                    self._learner.unlearn(hasher, self._store.rows(listed))
                    self._n_unlearned += 1
                with self._store.writing():
                    self._store.delete(listed, first)
                    self._put_settings(noted)
                    if unlearn:
                        self._store.put_setting("n_learned", hasher.version_)
                        self._learner.save(hasher, last)
                self._position = self._position._replace(seq=last)
                self._index.delete(listed, last)
            if unlearn:
                self._reencoder.after_change()
            return len(listed)

    def _check_vectors(self, vectors: ArrayLike, n_rows: int, single: bool) -> NDArray[Any]:
        width = self.n_features or getattr(self._learner.hasher, "n_features_in_", None)
        return check.check_rows(vectors, n_rows, single, width, self._store.setting("vector_dtype"))

    def _next_seqs(self, n_rows: int) -> list[int]:
        first = self._position.seq + 1
        return list(range(first, first + n_rows))

    def _put(self, hasher: OnlineHasher, rows: Rows, settings: Mapping[str, Any]) -> None:
        """Store items that were learned from, with their codes; then change the index."""
        generations = (self._index.current, self._index.building)
        codes = {one.number: one.encode(rows.vectors) for one in generations if one is not None}
        name_features(hasher, settings.get("feature_names"))
        n_learned, last = hasher.version_, rows.seqs[-1]
        with self._store.writing():
            self._put_settings({"n_features": rows.vectors.shape[1], **settings, "n_learned": n_learned})
            self._store.put(rows, codes)
            if self._quality is not None:
                self._note_quality(self._quality, n_learned, last)
            self._learner.save(hasher, last, if_due=True)
        self._position = Position(last, self._position.generation)
        self._index.put(rows.ids, rows.seqs, codes, rows.labels)
