"""Collection: durable items, searched while their hash functions change."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_choice, check_non_negative_int, check_positive_int
from onlinehash.collection import decisions, inputs, insight, maintenance
from onlinehash.collection import migration as migrations
from onlinehash.collection.documents import Documents, without_document
from onlinehash.collection.engines import open_engine
from onlinehash.collection.filters import parse_path
from onlinehash.collection.finder import Cursor, Finder, measure_of, n_candidates
from onlinehash.collection.generations import DUE, FAR_SHARE, Refresher, check_refresh
from onlinehash.collection.inputs import SearchFilter, check_item_ids, is_single
from onlinehash.collection.learner import Learner, as_hasher, default_hasher
from onlinehash.collection.migration import Migration, Pairs
from onlinehash.collection.searcher import Generation, OutOfStep, Request, Searcher, drawn
from onlinehash.collection.stores import open_store
from onlinehash.collection.stores.sql import AppliedRequest, Changes, CodeColumns, ItemColumns, SqlStore
from onlinehash.collection.types import (
    Batch,
    Decision,
    Id,
    Item,
    ItemPage,
    Label,
    ReviewItem,
    RiskCoverage,
    Stats,
    Suspect,
)
from onlinehash.embedders import as_embedder
from onlinehash.encoders import Encoder
from onlinehash.exceptions import (
    DataNotFoundError,
    InvalidInputError,
    LockedError,
    OnlineHashError,
    StorageError,
    UnknownIdError,
)
from onlinehash.hashers import HASHERS, HROH, OnlineHasher, load_hasher
from onlinehash.types import Codes, Progress, Rescore, SearchResult

_log = logging.getLogger(__name__)
_DISTANCES_AT_ONCE = 2_000_000  # computed in about a millisecond
_VECTORS_AT_ONCE = 100  # read and compared in less than that
_BYTES_IN_CACHE = 1 << 28  # of a file that the system keeps in memory while it is searched

T = TypeVar("T")


def _silent(done: int, total: int) -> None:
    """Show no progress."""


class Collection:
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

    def __init__(self, store: SqlStore, searcher: Searcher) -> None:
        self._store, self._searcher = store, searcher
        self.readonly = store.readonly
        """Whether changes are refused."""
        self.file = store.file
        """The file that holds the collection; None if it is in PostgreSQL."""
        self._changes = RLock()  # one change at a time
        self._settings = searcher.settings
        self._documents = Documents(self._settings)
        self._refresher = Refresher(self)
        self._finder = Finder(store, searcher)
        self._learner: Learner | None = None
        self._is_touched = False  # memory and store may differ: during a change, and after one that was ended too early
        self._quality: insight.Quality | None = None
        self._held_out: tuple[Encoder, NDArray[Any]] | None = None  # probabilities of rows of unlearned labels
        self._closed = False
        self._process = os.getpid()
        self._migrating = Lock()

    # ------------------------------------------------------------------ opening and closing

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        hasher: OnlineHasher | str | None = None,
        refresh: str | int | None = None,
        *,
        vector_dtype: str | None = None,
        readonly: bool = False,
        store: str | None = None,
        search: str | None = None,
        embed: Any = None,
    ) -> Self:
        """Open a collection; create it if there is none.

        A refresh that was interrupted starts again in the background.

        Parameters
        ----------
        path : path of the file
            Two more, ending in ``-wal`` and ``-shm``, appear beside it while it is open, and a ``.lock``. With a
            store, the name of the collection: letters, digits and ``_``.
        hasher : hasher or name of one, optional
            What a new collection learns with, on a copy; ``HROH(64, general_bits=32)`` if it is left out. For a
            collection that exists, it must be the one it has; :meth:`change_hasher` changes it.
        refresh : "auto", "manual" or int, optional
            When to encode all items again; stored in the collection. "auto", as when created: when the number of
            learned instances has doubled, when no more changes come, and before closing. "manual": when
            :meth:`refresh` is called. A number: after so many learned instances.
        vector_dtype : "float32" or "float16", optional
            Precision of the stored vectors; "float32" when created.
        readonly : bool, default=False
            See what another process commits; changes are refused.
        store : str, optional
            Where the items are stored, if not in a file: ``"postgresql://user@host/database"``.
        search : str, optional
            What searches the codes: ``"memory"``, as by default, ``"faiss"``, ``"gpu"``, ``"milvus:http://host:19530"``
            or ``"milvus:codes.db"``.
        embed : name, callable or model, optional
            Embeds documents: ``"use"``, ``f(list) -> array``, an object with ``transform`` or ``encode``; see
            :mod:`onlinehash.embedders`. The collection remembers its name and refuses another. Not needed again if it
            was given by name. Documents that are text or paths are kept, in the field ``"document"`` of the payload:
            :meth:`migrate` can then embed them again.
        """
        given = None if hasher is None else as_hasher(hasher)  # all is checked before a file is created
        policy = None if refresh is None else check_refresh(refresh)
        embedder = None if embed is None else as_embedder(embed)
        if vector_dtype is not None:
            check_choice("vector_dtype", vector_dtype, ("float32", "float16"))
        engine = open_engine(search or "memory", Path(path).stem)
        try:
            kept = open_store(path, store, readonly=readonly)
        except BaseException:
            engine.close()
            raise
        collection = cls(kept, Searcher(kept, engine))
        try:
            if "vector_dtype" not in kept.settings():
                if readonly:
                    raise DataNotFoundError("There is no collection in this place yet; open it for writing first.")
                with kept.transaction():
                    settings = Learner(kept, given or as_hasher(default_hasher())).save(0)
                    settings |= {"vector_dtype": vector_dtype or "float32", "refresh": policy or "auto"}
                    kept.put_settings(settings)
            collection._load()
            collection._mend_engine()
            stored_dtype = collection._settings["vector_dtype"]
            if vector_dtype not in (None, stored_dtype):
                raise InvalidInputError(f"vector_dtype={vector_dtype!r}, but {path} stores {stored_dtype}.")
            if collection._learner is not None:
                collection._learner.check_recipe(hasher)
            new: dict[str, Any] = {} if embedder is None else collection._documents.use(embedder)
            if policy is not None:
                new["refresh"] = policy
            if not readonly:
                with collection._changing():
                    if any(collection._settings.get(name) != value for name, value in new.items()):
                        collection._put_settings(new)
                    if collection._settings.get(DUE):
                        collection._refresher.ask()
                    collection._refresher.after_change()
        except BaseException:
            collection._refresher.stop()
            collection._release()
            raise
        return collection

    def close(self, *, refresh: bool | None = None) -> None:
        """Write the hasher's state and release the file.

        Parameters
        ----------
        refresh : bool, optional
            Refresh stale codes first. By default a collection with ``refresh="auto"`` does. Without it, what is pending
            is left to the next writer, and logged.
        """
        if self._closed or self._process != os.getpid():  # what a forked process inherits is not its own to close
            self._closed = True
            return
        refresher = self._refresher
        if not self.readonly:
            is_pending = refresher.is_building or refresher.is_stale()
            if refresh or (refresh is None and is_pending and self._settings["refresh"] == "auto"):
                try:
                    self.refresh()
                except OnlineHashError as error:
                    _log.warning("The refresh before closing failed: %s", error)
            elif is_pending:
                _log.warning(
                    "Closed with codes that do not know %d of %d learned instances; the next writer refreshes them.",
                    self._searcher.staleness,
                    self._searcher.head.n_learned,
                )
        refresher.stop()
        with self._changes:
            if self._closed:
                return
            if not self.readonly:
                with suppress(OnlineHashError):  # no loss: what the hasher has learned is learned again
                    self._save_hasher()
            self._release()

    def _release(self) -> None:
        self._closed, self._learner = True, None
        self._searcher.engine.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(refresh=None if kind is None else False)

    def __repr__(self) -> str:
        return "<Collection, closed>" if self._closed else f"<Collection of {len(self)} items>"

    # ------------------------------------------------------------------ in step with the store

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("This collection is closed; open it again.")
        if os.getpid() != self._process:
            self._store.head()  # refuses a forked process

    @contextmanager
    def _changing(self) -> Iterator[Learner]:
        """Keep other changes out; give the learner, with all that is in memory in step with the store.

        Whatever ends a change too early, an interrupt by the user included, memory is read again before the next one,
        and shows what the store has: all of the change, or nothing of it.
        """
        self._check_open()
        if self._store.readonly:
            raise StorageError("This collection is open with readonly=True; open it for writing to change it.")
        with self._changes:
            self._check_open()
            self._is_touched |= self._store.take_lock()
            if self._is_touched:
                self._load()  # a change was ended too early, or another process may have written
            assert self._learner is not None
            yield self._learner

    def _load(self) -> None:
        """Read settings, codes and hasher from the store; a process that reads needs only what has changed."""
        self._is_touched = not self.readonly
        with self._store.snapshot():
            self._settings.update(dict.fromkeys(self._settings) | self._store.settings())
            if self.readonly and not self._searcher.is_torn:
                self._searcher.follow()
            else:
                self._searcher.load()
        if not self.readonly:
            self._learner = Learner.load(self._store)
            self._is_touched = False

    def _catch_up(self) -> None:
        """Apply what another process has committed since, or what a change that was ended too early has left."""
        self._check_open()
        if self._store.readonly:
            if self._searcher.is_torn or self._store.head().n_changes != self._searcher.head.n_changes:
                with self._changes:
                    self._load()
        elif self._is_touched and self._changes.acquire(self._searcher.is_torn):
            try:  # unless another thread is about to change something
                with suppress(LockedError):  # then another process writes, and a commit of ours is over
                    self._store.take_lock()
                if self._is_touched:
                    self._load()
            finally:
                self._changes.release()

    @contextmanager
    def _commit(
        self, settings: Mapping[str, Any], changes: Changes | None = None, then: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Store what the block writes, and settings, to which it may add, in one transaction; then change memory."""
        self._is_touched, changed = True, dict[str, Any]()
        with self._store.transaction(self._searcher.head):
            yield
            for name, value in settings.items():
                if self._settings.get(name) != value:
                    changed[name] = value
            if changed:
                self._store.put_settings(changed)
        self._settings.update(changed)
        if then is not None:
            then()
        self._searcher.apply(changes or Changes(), self._store.last)
        self._is_touched = False

    def _mend_engine(self) -> None:
        """Bring the engine up to date if it has failed to apply a change, or raise its error."""
        if self._searcher.is_behind:
            with self._changes, self._store.snapshot():
                self._catch_up()
                self._searcher.mend()

    def _put_settings(self, settings: Mapping[str, Any]) -> None:
        """Write settings as a change of their own."""
        with self._commit(settings):
            pass

    def _save_hasher(self) -> None:
        """Write the state of the hasher, unless the store has it."""
        with self._changing() as learner:
            if learner.n_unsaved_bytes:
                settings = dict[str, Any]()
                with self._commit(settings):
                    settings |= learner.save(self._searcher.head.seq)

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

        The call is applied as a whole, durably, or not at all. HROH unlearns what is replaced, and items that have not
        changed are not learned again; other hashers learn from all items given.

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
        given, embedder = (vectors, documents, payload, is_single(ids)), self._settings.get("embedder")
        if vectors is None or documents is not None:  # embedding may take long, so it keeps nobody out
            vectors, payload = self._documents.columns(*given)
        with self._changing() as learner:
            if documents is not None and embedder != self._settings.get("embedder"):
                vectors, payload = self._documents.columns(*given)
            settings = {} if checkpoint is None else inputs.checkpoint_settings(checkpoint)
            if type(vectors) is not np.ndarray:
                settings |= inputs.named_features(vectors, self._settings)
            batch = inputs.check_batch(ids, vectors, labels, payload, self._settings)
            if not batch.ids:
                self._put_settings(settings)
                return
            if self._quality is not None:
                self._quality.search(self._searcher, batch)
            self._put(learner, batch, settings)

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
        """Change what is given of existing items; the hasher learns from what has changed, as in :meth:`upsert`.

        Parameters
        ----------
        ids, vectors, labels, payload, documents, checkpoint
            As for :meth:`upsert`. If an id is unknown, nothing changes. A document that is kept in the payload stays
            there, unless another is given.
        """
        single = is_single(ids)
        with self._changing() as learner:
            listed = check_item_ids(ids, self.id_type, ordered=True)
            seqs = self._known_seqs(listed)
            settings = inputs.checkpoint_settings(checkpoint)
            if not listed:
                self._put_settings(settings)
                return
            payloads = self._store.payloads(seqs)
            if documents is not None:
                if payload is ...:
                    old = list(map(without_document, payloads))
                    payload = old[0] if single else old
                vectors, payload = self._documents.columns(vectors, documents, payload, single)
            if payload is not ...:
                new = inputs.payload_texts(payload, len(listed), single)
                payloads = new if documents is not None else self._documents.kept(payloads, new)
            if vectors is None and labels is ...:
                with self._commit(settings):
                    self._store.put_payloads(seqs, payloads)
                return
            if vectors is None:
                rows = self._store.rows(seqs).vectors
            else:
                settings |= inputs.named_features(vectors, self._settings)
                rows = inputs.check_vectors(vectors, len(listed), single, self._settings)
            texts = self._searcher.catalogue.labels(np.array(seqs, np.int64))
            if labels is not ...:
                texts = inputs.label_texts(labels, len(listed), single, self.label_type)
            self._put(learner, Batch(listed, rows, texts, payloads), settings)

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
            until the next refresh.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        check_choice("missing", missing, ("raise", "ignore"))
        with self._changing() as learner:
            if (ids is None) == (where is None):
                raise InvalidInputError("delete takes ids or where, one of the two.")
            if where is None:
                listed = check_item_ids(ids, self.id_type)
                found = self._known_seqs(listed) if missing == "raise" else list(self._store.seqs(listed).values())
                seqs = np.array(found, np.int64)
            else:
                seqs = self._finder.seqs(self._filter(where=where))
            settings = inputs.checkpoint_settings(checkpoint)
            if not len(seqs):
                self._put_settings(settings)
                return 0
            catalogue, at = self._searcher.catalogue, self._searcher.head.seq + 1
            if unlearn:
                if not learner.hasher.unlearns:
                    raise InvalidInputError(
                        f"unlearn=True, but {learner.hasher!r} cannot unlearn; HROH can. To learn again from what is "
                        "left, delete, then call collection.change_hasher(...)."
                    )
                rows = self._store.rows(seqs.tolist())
                self._is_touched = True
                learner.learn(rows.vectors, rows.labels, unlearn=True)
            with self._commit(settings, Changes(gone=seqs)):
                self._store.delete(seqs.tolist(), catalogue.ids(seqs), at)
                if unlearn:
                    settings |= learner.save(at)
            if unlearn:
                self._refresher.after_change()
            return len(seqs)

    def _put(
        self, learner: Learner, batch: Batch, settings: dict[str, Any], relabel: Callable[[], object] | None = None
    ) -> None:
        """Learn from items, or ``relabel`` their class; store them with their codes, and search them from now on."""
        self._is_touched, store = True, self._store
        replaced = store.seqs(batch.ids)
        unlearns = bool(replaced) and learner.replaces
        try:
            if relabel is not None:
                relabel()
            elif unlearns:
                learner.replace(batch, store.rows(list(replaced.values())))
            else:
                learner.learn(batch.vectors, batch.labels)
        except OnlineHashError:
            # A hasher that refuses its input has not changed, unless it unlearned some.
            self._is_touched = unlearns or relabel is not None
            raise
        generation, head, version = self._searcher.generation, self._searcher.head, learner.hasher.version_
        codes = np.empty((0, 0), np.uint8) if generation is None else generation.encode_stored(batch.vectors)
        first, last = head.seq + 1, head.seq + len(batch.ids)
        seqs = np.arange(first, last + 1)
        settings |= {"n_features": batch.vectors.shape[1], "id_type": type(batch.ids[0]).__name__}
        settings["label_type"] = self._settings.get("label_type") or inputs.label_type_of(batch.labels)
        if self._quality is not None:
            settings |= self._quality.record(self._settings, version, last)
        items, gone = ItemColumns(seqs, batch.ids, batch.labels), np.array(sorted(replaced.values()), np.int64)
        with self._commit(settings, Changes(items, CodeColumns(seqs, codes), gone)):
            if replaced:
                store.delete(list(replaced.values()), list(replaced), last, keep_rows=learner.replaces)
            store.put(first, batch, version)
            if generation is not None:
                store.put_codes(generation.number, seqs, codes)
            if relabel is not None or learner.is_due:
                settings |= learner.save(last)
        self._refresher.after_change()

    def link(self, ids: Any, *, checkpoint: Mapping[str, Any] | None = None) -> Label:
        """Say that items belong together, without naming their class, and return the label that they share now.

        Items without a label get that of the others, or a new one: ``"link-1"``, or a number below -1000000000 where
        labels are integers. Items that were linked before bring all that they were linked with.

        Parameters
        ----------
        ids : several ids
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import HROH, Collection
        >>> hasher = HROH(n_components=64, random_state=0)
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", hasher) as shop:
        ...     shop.upsert(["a", "b", "c"], [[1.0, 0.5], [0.9, 0.5], [-1.0, 0.2]])
        ...     label = shop.link(["a", "b"])
        ...     [item.id for item in shop.items(labels=label)]
        ['a', 'b']
        """
        with self._changing() as learner:
            listed, settings = check_item_ids(ids, self.id_type), inputs.checkpoint_settings(checkpoint)
            if len(listed) < 2:
                raise InvalidInputError("link takes at least two ids.")
            seqs, catalogue = np.array(self._known_seqs(listed), np.int64), self._searcher.catalogue
            known = list(map(inputs.label_set, catalogue.labels(seqs)))
            several = next((id for id, some in zip(listed, known, strict=True) if len(some) > 1), None)
            if several is not None:
                raise InvalidInputError(f"Item {several!r} has several labels; link takes items with one, or none.")
            links = sorted({label for some in known for label in some if inputs.is_link(label)}, key=str)
            names = sorted({label for some in known for label in some} - set(links), key=str)
            if len(names) > 1:
                raise InvalidInputError(
                    f"Items have the labels {names[0]!r} and {names[1]!r}; call merge_labels if these are the same."
                )
            if not (names or links):
                n_links = settings["n_links"] = self._settings.get("n_links", 0) + 1
                links = [inputs.link_label(n_links, self.label_type)]
            label: Label = (names or links)[0]
            joined = np.unique(np.concatenate([seqs, catalogue.having(links)]))
            (text,) = inputs.label_texts(label, 1, True, None)
            changed = joined[[old != text for old in catalogue.labels(joined)]].tolist()
            if changed:
                self._put(learner, self._stored_batch(changed, [text] * len(changed)), settings)
            else:
                self._put_settings(settings)
            return label

    def unlink(self, ids: Any, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Take items out of what they were linked with: they have no label then, and it is unlearned.

        Parameters
        ----------
        ids : int or str, or several
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        listed = check_item_ids(ids, self.id_type)
        self.update(listed, labels=[None] * len(listed), checkpoint=checkpoint)

    def rename_label(self, label: Label, to: Label, *, checkpoint: Mapping[str, Any] | None = None) -> int:
        """Give all items of a label another, which no item has, and return their number.

        Parameters
        ----------
        label, to : int or str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        return self._relabel(label, to, checkpoint, is_known=False)

    def merge_labels(self, label: Label, into: Label, *, checkpoint: Mapping[str, Any] | None = None) -> int:
        """Give all items of a label another that other items have, and return their number.

        The hasher then knows one class instead of two, exactly as if it had learned them so; only the strength of its
        regularisation differs where items had both labels.

        Parameters
        ----------
        label, into : int or str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import HROH, Collection
        >>> hasher = HROH(n_components=64, random_state=0)
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", hasher) as pets:
        ...     pets.upsert([1, 2, 3], [[1.0, 0.5], [0.9, 0.5], [-1.0, 0.2]], ["cat", "kitten", "dog"])
        ...     pets.merge_labels("kitten", "cat")
        ...     pets.label_counts()
        1
        {'cat': 2, 'dog': 1}
        """
        return self._relabel(label, into, checkpoint, is_known=True)

    def _relabel(self, label: Label, to: Label, checkpoint: Mapping[str, Any] | None, *, is_known: bool) -> int:
        """Change a label of items and of the hasher."""
        with self._changing() as learner:
            counts, hasher = self.label_counts(), learner.hasher
            label, to = (inputs.check_label(each, self.label_type) for each in (label, to))
            if label not in counts:
                raise InvalidInputError(f"No item has the label {label!r}.")
            if label == to:
                raise InvalidInputError(f"{to!r} is not another label than {label!r}.")
            if (to in counts) != is_known:
                there, way = ("No item has", "rename_label") if is_known else ("Items have", "merge_labels")
                raise InvalidInputError(f"{there} the label {to!r}; call {way}.")
            if not isinstance(hasher, HROH):
                raise InvalidInputError(
                    f"{hasher!r} cannot change labels that it has learned; HROH can. Otherwise update the items, then "
                    "call collection.change_hasher(...)."
                )
            seqs = self._searcher.catalogue.having([label]).tolist()
            sets = map(inputs.label_set, self._searcher.catalogue.labels(np.array(seqs, np.int64)))
            texts = inputs.label_texts([sorted(some - {label} | {to}) for some in sets], len(seqs), False, None)
            batch, settings = self._stored_batch(seqs, texts), inputs.checkpoint_settings(checkpoint)
            self._put(learner, batch, settings, partial(hasher.relabel, label, to))
            return len(seqs)

    def _stored_batch(self, seqs: list[int], texts: list[str | None]) -> Batch:
        """Return stored items with other labels."""
        rows = self._store.rows(seqs)
        return Batch(rows.ids, rows.vectors, texts, self._store.payloads(seqs))

    def apply_once(self, key: str, checksum: int, n_items: int, change: Callable[[], object]) -> int:
        """Apply a change, unless it was applied in the last 24 hours; return how many items it concerned.

        Its key is stored in the same transaction, so that it is known again whenever the process may end.

        Parameters
        ----------
        key : str
            Of the caller's choice, another for every change.
        checksum : int
            Of what is asked for: a key that comes again with another one is refused.
        n_items : int
            What to return now, and when the change comes again.
        change : callable
            Calls one of the methods that change the collection.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     for _ in range(2):
        ...         changed = pets.apply_once("a1", 0, 1, lambda: pets.upsert(1, [1.0, 0.5], "dog"))
        ...     changed, pets.stats().n_learned
        (1, 1)
        """
        with self._changing():
            known = self._store.find_request(key)
            if known is None:
                self._store.request = known = AppliedRequest(key, checksum, n_items)
                try:
                    change()
                finally:
                    self._store.request = None
            elif known.checksum != checksum:
                raise InvalidInputError(f"key={key!r} was used for another request; make a new one.")
            return known.n_items

    def check_input(self, ids: Any, vectors: Any, labels: Any = None, payload: Any = None) -> None:
        """Raise what :meth:`upsert` would raise for lists of ids, vectors, labels and payloads; store nothing."""
        inputs.check_batch(ids, vectors, labels, payload, self._settings)

    # ------------------------------------------------------------------ reading

    @contextmanager
    def snapshot(self, *, labels: Any = None, where: Any = None) -> Iterator[maintenance.Snapshot]:
        """Give items as they are at one moment, in order of id; changes go on while they are read.

        Parameters
        ----------
        labels, where
            As for :meth:`items`.
        """
        with ExitStack() as reading:
            with self._changes:
                self._catch_up()
                reading.enter_context(self._store.snapshot())
                self._catch_up()  # what was committed in between
                among = self._filter(labels, where)
                rows = self._in_step(lambda: self._finder.ordered(Cursor(), among))
            yield maintenance.Snapshot(rows, self._finder.items)

    def __len__(self) -> int:
        self._catch_up()
        return len(self._searcher.catalogue)

    def __contains__(self, id: object) -> bool:
        try:
            return is_single(id) and bool(self._store.seqs(check_item_ids(id, self.id_type)))
        except InvalidInputError:
            return False

    def __iter__(self) -> Iterator[Id]:
        self._catch_up()
        return iter([id for _, id in self._in_step(lambda: self._finder.ordered(Cursor(), SearchFilter()))])

    def __getitem__(self, id: Id) -> Item:
        inputs.demand_single(id)
        return self.get(id)[0]

    @property
    def id_type(self) -> str | None:
        """Type of the ids, "int" or "str"; None before the first."""
        return self._setting("id_type")

    @property
    def label_type(self) -> str | None:
        """Type of the labels, "int" or "str"; None before the first."""
        return self._setting("label_type")

    @property
    def n_features(self) -> int | None:
        """Width of the vectors; None before the first."""
        return self._setting("n_features")

    def _setting(self, name: str) -> Any | None:
        self._check_open()
        return self._settings.get(name)

    @property
    def sequence(self) -> int:
        """Sequence number of the last change that was applied here."""
        self._catch_up()
        return self._searcher.head.seq

    @property
    def generation(self) -> int:
        """Number of the generation of codes in use; 0 before the first."""
        self._catch_up()
        return self._searcher.head.generation

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the generation in use; None before the first."""
        self._catch_up()
        generation = self._searcher.generation
        return None if generation is None else generation.encoder

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the hasher, with all it has learned."""
        self._catch_up()
        with self._changes:
            if self._learner is not None:
                return load_hasher(self._learner.hasher.to_bytes())
            with self._store.snapshot():
                return Learner.load(self._store).hasher

    @property
    def unlearns(self) -> bool:
        """Whether the hasher can unlearn items."""
        hasher = self._learner.hasher if self._learner is not None else HASHERS.get(self._settings["method"])
        return hasher is not None and hasher.unlearns

    @property
    def embedder(self) -> str | None:
        """Name of the embedder of documents; None if the collection has none."""
        return self._documents.name

    @property
    def embeds(self) -> str | None:
        """What kind of documents the collection embeds, "text" or "image"; None if it cannot."""
        return self._documents.takes

    def embed(self, documents: Sequence[Any]) -> NDArray[np.float32]:
        """Return the vectors of documents, of shape (n_documents, n_features).

        Parameters
        ----------
        documents : several documents
        """
        self._check_open()
        return self._documents.vectors(documents)

    def checkpoint(self, name: str) -> Any:
        """Return what :meth:`upsert` or :meth:`delete` last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        self._catch_up()
        return deepcopy(self._settings.get(f"{inputs.CHECKPOINT}{name}"))

    def codes(self, ids: Any = None) -> tuple[list[Id], Codes]:
        """Return the ids that have a code, in order of arrival, and their packed codes.

        Parameters
        ----------
        ids : int or str, or several, optional
            Only these, in their order; those that are unknown or have no code yet are left out.
        """
        return self.codes_and_encoder(ids)[:2]

    def codes_and_encoder(self, ids: Any = None) -> tuple[list[Id], Codes, Encoder | None]:
        """Return what :meth:`codes` does, and the encoder that made the codes; None before the first."""
        self._catch_up()
        self._mend_engine()
        if ids is None:
            return self._searcher.codes()
        found = self._store.seqs(check_item_ids(ids, self.id_type))
        return self._searcher.codes(np.array(list(found.values()), np.int64))

    def sample(self, n_items: int, *, seed: int = 0) -> list[Id]:
        """Return the ids of items at random, in order of arrival.

        Parameters
        ----------
        n_items : int
            At most this many.
        seed : int, default=0
        """
        self._catch_up()
        check_non_negative_int("n_items", n_items)
        with self._searcher.lock.reading():
            catalogue = self._searcher.catalogue
            return catalogue.ids(drawn(catalogue.all_seqs(), n_items, seed))

    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order.

        Parameters
        ----------
        ids : int or str, or several
        """
        self._catch_up()
        listed = check_item_ids(ids, self.id_type)
        with self._store.snapshot():
            return self._finder.items(self._known_seqs(listed))

    def items(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: Id | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> Iterator[Item]:
        """Yield items in order of id or of arrival, read in chunks.

        Parameters
        ----------
        labels : label or several, optional
            Only items that have any of them.
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        order : "id" or "arrival", default="id"
            An item that is replaced, or whose vector or label is updated, arrives again.
        descending : bool, default=False
        after : int or str, optional
            Only items that follow this one in the order. In order of id it need not exist; in order of arrival it must,
            or use :meth:`page`.
        limit : int, optional
            At most this many.
        chunk : int, default=1000
            Items read at a time.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     payload = [{"price": price} for price in (5, 15, 25)]
        ...     shop.upsert(["pen", "cup", "hat"], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [0, 1, 0], payload)
        ...     [item.id for item in shop.items(where={"price": {"$lt": 20}})]
        ...     [item.id for item in shop.items(labels=0, order="arrival", descending=True)]
        ['cup', 'pen']
        ['hat', 'pen']
        """
        check_positive_int("chunk", chunk)
        left = sys.maxsize if limit is None else check_non_negative_int("limit", limit)
        self._catch_up()
        begin, among = self._finder.cursor(order, descending, after), self._filter(labels, where)

        def listed(cursor: Cursor | None, left: int) -> Iterator[Item]:
            if among != SearchFilter():  # filtered once, then read in chunks
                seqs = [seq for seq, _ in self._in_step(lambda: self._finder.ordered(begin, among))][:left]
                for start in range(0, len(seqs), chunk):
                    yield from self._finder.items_left(seqs[start : start + chunk])
                return
            while cursor is not None and left > 0:
                here, size = cursor, min(chunk, left)
                some, cursor = self._in_step(lambda: self._finder.page(here, among, size))  # noqa: B023 (called at once)
                yield from some
                left -= size

        return listed(begin, left)

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
        """Return some items, and a cursor for those that follow.

        Parameters
        ----------
        labels, where, order, descending, after
            As for :meth:`items`.
        cursor : str, optional
            Instead of ``after``: that of the page before, which had the same order. It stays valid when items
            change or are deleted.
        limit : int, default=100
            At most this many.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/things.oh", "hcoh") as things:
        ...     things.upsert([3, 1, 2], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [0, 1, 0])
        ...     first = things.page(order="arrival", limit=2)
        ...     second = things.page(order="arrival", limit=2, cursor=first.cursor)
        >>> [item.id for item in first.items], [item.id for item in second.items], second.cursor
        ([3, 1], [2], None)
        """
        self._catch_up()
        if cursor is not None and after is not None:
            raise InvalidInputError("page takes after or cursor, one of the two.")
        begin = self._finder.cursor(order, descending, after, cursor)
        limit, among = check_positive_int("limit", limit), self._filter(labels, where)
        items, following = self._in_step(lambda: self._finder.page(begin, among, limit))
        return ItemPage(items, None if following is None else str(following))

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        labels : label or several, optional
            Only items that have any of them.
        """
        self._catch_up()
        among = self._filter(labels, where)
        return len(self._in_step(lambda: self._finder.seqs(among)))

    def label_counts(self, where: Any = None) -> dict[Label | None, int]:
        """Return the number of items that have each label, in order of the labels; None for items without any.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     pets.upsert([1, 2, 3], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [["dog", "pet"], ["cat", "pet"], None])
        ...     pets.label_counts()
        {'cat': 1, 'dog': 1, 'pet': 2, None: 1}
        """
        self._catch_up()
        among = self._filter(where=where)
        counts = self._in_step(lambda: self._finder.label_counts(among))
        return {label: counts[label] for label in sorted(counts, key=lambda label: (label is None, label))}

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index, in order."""
        self._catch_up()
        return sorted(self._settings.get("indexes", []))

    def stats(self) -> Stats:
        """Return the statistics of the collection."""
        self._catch_up()
        refresher, searcher, settings = self._refresher, self._searcher, self._settings
        generation, n_items = searcher.generation, searcher.head.n_items
        progress = min(1.0, refresher.n_encoded / max(1, n_items)) if refresher.is_building else 1.0
        return Stats(
            n_items=n_items,
            n_searchable=0 if generation is None else len(searcher.catalogue),
            n_learned=searcher.head.n_learned,
            method=settings["method"],
            n_bits=settings["n_bits"] if generation is None else generation.encoder.n_bits,
            generation=searcher.head.generation,
            version=None if generation is None else generation.encoder.version,
            staleness=searcher.staleness,
            index=searcher.engine.kind,
            refreshing=refresher.is_busy,
            progress=progress,
            pending=refresher.is_busy or refresher.is_stale() or bool(settings.get(DUE)),
            bits_recomputed=settings.get("bits_recomputed", 0),
            refresh_error=None if refresher.error is None else str(refresher.error),
            n_bytes=self._store.size(),
            **({} if self._quality is None else self._quality.stats()),
        )

    def _known_seqs(self, ids: list[Any]) -> list[int]:
        """Return the sequence numbers of ids, all of which must be known."""
        seqs = self._store.seqs(ids)
        if len(seqs) < len(ids):
            unknown, n_items = next(id for id in ids if id not in seqs), self._store.head().n_items
            raise UnknownIdError(f"There is no item with id {unknown!r} in this collection of {n_items}.")
        return list(seqs.values())

    def _filter(self, labels: Any = None, where: Any = None) -> SearchFilter:
        return inputs.search_filter(labels, None, where, self._settings)

    # ------------------------------------------------------------------ searching

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        where: Any = None,
        rescore: str | None = "auto",
        asymmetric: bool = False,
        include: Iterable[str] | None = None,
        wait: bool = True,
        max_payload_bytes: int | None = None,
    ) -> SearchResult[list[Any]]:
        """Find the k nearest items of every query, nearest first.

        Ties come in a fixed order that does not depend on arrival (a hash), so that new items are found as well as old
        ones. Queries are encoded by the encoder that made the codes. Items that have no code yet are not found.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one document or a list of them, text, paths or images, if the collection has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search among items that have any of them.
        ids : several ids, optional
            Search among these; unknown ones are ignored.
        where : mapping, optional
            Search among items whose payload passes: ``{"price": {"$lt": 20}, "brand": "acme"}``. Operators are ``$eq
            $ne $gt $gte $lt $lte $in $nin $contains $exists $not``, and ``$and $or $not`` around filters; paths have
            dots. The database answers it; see :meth:`create_index`.
        rescore : "auto", "learned", "cosine", "l2" or None, default="auto"
            How to order the ``max(10 k, 100)`` items whose codes are nearest. "learned": by the probability that they
            have the label of the query, and by the cosine of stored vectors, the more the less the query resembles
            what was learned; an item with the same vector comes first. "cosine" and "l2": by stored vectors alone.
            None: by codes alone. "auto" is "learned" where the hasher scores classes, as HROH does, otherwise None.
        asymmetric : bool, default=False
            Compare the real values of the query with the bits of the codes, instead of bits with bits.
        include : several of "labels", "payload", "vectors", optional
            Return these of the items found, too.
        wait : bool, default=True
            See the last change of the writer. If the codes lack 10 % of what was learned or more, and ``refresh`` is
            "auto", wait for a refresh, at most 10 seconds.
        max_payload_bytes : int, optional
            Raise :class:`~onlinehash.exceptions.LargeResultError` if the payloads included have more.

        Returns
        -------
        result : SearchResult
            Lists of ids and distances, fewer than k where there are fewer items; the version of the encoder that made
            the codes; the sequence number of the last change that the search has seen. Distances are those of the
            codes, or those of ``rescore``: of "learned" and "cosine" from 0, the same, to 2.
        """
        k = check_positive_int("k", k)
        if rescore is not None:
            check_choice("rescore", rescore, get_args(Rescore))
        parts = inputs.check_include(include) if include else ()
        request = Request(k, None, rescore, asymmetric, parts, max_payload_bytes=max_payload_bytes)
        return self._search(vectors, request, wait, labels, ids, where)

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        where: Any = None,
        include: Iterable[str] | None = None,
        wait: bool = True,
        max_results: int | None = None,
        max_payload_bytes: int | None = None,
    ) -> SearchResult[list[Any]]:
        """Find all items whose codes differ from a query's in at most ``radius`` bits.

        Parameters
        ----------
        vectors, labels, ids, where, include, wait, max_payload_bytes
            As for :meth:`search`.
        radius : int
        max_results : int, optional
            Raise :class:`~onlinehash.exceptions.TooManyResultsError` as soon as all queries together find more.
        """
        radius, parts = check_non_negative_int("radius", radius), inputs.check_include(include) if include else ()
        request = Request(radius=radius, parts=parts, max_results=max_results, max_payload_bytes=max_payload_bytes)
        return self._search(vectors, request, wait, labels, ids, where)

    def _search(
        self, vectors: Any, request: Request, wait: bool, labels: Any, ids: Iterable[Id] | None, where: Any
    ) -> SearchResult[list[Any]]:
        self._ready(wait)
        among = inputs.search_filter(labels, ids, where, self._settings)

        def answer() -> SearchResult[list[Any]]:
            rows, single, generation = self._queries(vectors)
            result = self._finder.search(rows, generation, among, request)
            return result[0] if single else result

        return self._in_step(answer)

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        labels: Any = None,
        where: Any = None,
        rescore: str | None = "auto",
        include: Iterable[str] | None = None,
    ) -> SearchResult[list[Any]]:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, where, rescore, include
            As for :meth:`search`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     pets.upsert([1, 2, 3], [[1.0, 0.5], [1.0, 0.4], [-1.0, 0.5]], ["dog", "dog", "cat"])
        ...     pets.search_by_id(1, k=1).ids
        [2]
        """
        listed = check_item_ids(ids, self.id_type)
        vectors = np.array([item.vectors for item in self.get(listed)])
        options: Any = {"labels": labels, "where": where, "rescore": rescore, "include": include}
        found = self.search(vectors, check_positive_int("k", k) + 1, **options).without(listed, k)
        return found[0] if is_single(ids) else found

    def searches_at_once(self, n_queries: int, k: int = 10, rescore: str | None = None) -> bool:
        """Return whether a search takes a millisecond or two, and waits for nobody.

        Parameters
        ----------
        n_queries : int
        k : int, default=10
        rescore : str or None
            As for :meth:`search`.
        """
        searcher, generation = self._searcher, self._searcher.generation
        if generation is None or searcher.engine.kind != "memory":
            return False
        if self._closed or self._store.readonly or self._is_touched or self._refresher.is_stale(FAR_SHARE):
            return False
        if measure_of(rescore, generation.encoder) is not None:
            in_cache = self._store.file is not None and self._store.size() <= _BYTES_IN_CACHE
            if not in_cache or n_queries * n_candidates(k) > _VECTORS_AT_ONCE:
                return False
        return n_queries * searcher.head.n_items <= _DISTANCES_AT_ONCE

    def _ready(self, wait: bool) -> None:
        """Bring memory up to date before a search."""
        if wait or self._is_touched or self._searcher.is_torn or self._searcher.generation is None:
            self._catch_up()
        else:
            self._check_open()
        if wait:
            self._refresher.wait_for_codes()

    def _in_step(self, read: Callable[[], T]) -> T:
        """Read from memory and store; again if they differ, at last with changes kept out."""
        for _ in range(3):
            try:
                return read()
            except OutOfStep:
                self._catch_up()
                self._mend_engine()
        with self._changes:
            if not self.readonly and self._store.head().n_changes != self._searcher.head.n_changes:
                self._is_touched = True  # another process has written, though this one could
            self._catch_up()
            with self._store.snapshot():
                self._catch_up()
                return read()

    def _queries(self, vectors: Any) -> tuple[NDArray[Any], bool, Generation | None]:
        """Return queries as vectors, whether there is one alone, and the generation whose embedding model made them."""
        generation, world = self._searcher.generation, self._settings.get("n_migrations", 0)
        try:
            width = self.n_features if generation is None else generation.encoder.n_features
            given = vectors if type(vectors) is np.ndarray else self._documents.queries(vectors)
            rows, single = inputs.check_queries(given, width, self._settings.get("feature_names"))
        except OnlineHashError:
            if generation is not None and generation.world != self._settings.get("n_migrations", 0):
                raise OutOfStep from None
            raise
        if generation is not None and not generation.world == world == self._settings.get("n_migrations", 0):
            raise OutOfStep
        return rows, single, generation

    # ------------------------------------------------------------------ decisions

    def classify(
        self,
        vectors: Any,
        *,
        max_error: float = 0.02,
        unknown_share: float = 0.0,
        n_neighbours: int = 3,
        wait: bool = True,
    ) -> Decision | list[Decision]:
        """Say what every row is, or leave it open where the error would be too large.

        The threshold follows from the scores that some thousand stored items would have, had they not been learned, so
        it holds for new rows of the labels that were learned. Rows of other labels are accepted at times: give the
        share of them that is to be expected.

        Parameters
        ----------
        vectors : as for :meth:`search`
        max_error : float, default=0.02
            Share of wrong labels among those that are given, on average over rows.
        unknown_share : float, default=0.0
            Share of the rows whose label was never learned. The threshold then counts how often rows of labels that
            are unlearned on trial are accepted: the first such call after a refresh takes some seconds.
        n_neighbours : int, default=3
            How many of the nearest items that support the most probable label are returned.
        wait : bool, default=True
            As for :meth:`search`.

        Returns
        -------
        decisions : list of Decision
            One per row; for a single row, the decision itself.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> hasher = oh.HROH(64, n_components=256, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.upsert(range(1000), X[:1000], y[:1000])
        ...     decision = digits.classify(X[1000], max_error=0.01)
        >>> decision.label == int(y[1000]), decision.known, len(decision.neighbours)
        (True, True, 3)
        """
        max_error = decisions.check_share("max_error", max_error)
        unknown_share = decisions.check_share("unknown_share", unknown_share, zero=True)
        check_non_negative_int("n_neighbours", n_neighbours)
        self._ready(wait)

        def begin() -> tuple[Encoder, NDArray[Any], bool]:
            encoder = decisions.scoring_encoder(self)
            rows, single, generation = self._queries(vectors)
            if generation is None or generation.encoder is not encoder:
                raise OutOfStep
            return encoder, rows, single

        (encoder, rows, single), unknown = self._in_step(begin), None
        if unknown_share:
            if self._held_out is None or self._held_out[0] is not encoder:
                self._held_out = encoder, decisions.held_out_probabilities(self, encoder)
            unknown = self._held_out[1]
        threshold = encoder.calibration.threshold(max_error, unknown, unknown_share)
        found = decisions.decide(self, encoder, rows, threshold, n_neighbours)
        return found[0] if single else found

    def suspects(self, n: int = 100, *, labels: Any = None, progress: Progress = _silent) -> list[Suspect]:
        """Return the items whose label the other items contradict, the most certain first.

        Every labelled item is scored as if it had not been learned; all of them are read.

        Parameters
        ----------
        n : int, default=100
            At most this many.
        labels : label or several, optional
            Only items that have any of them.
        progress : callable, optional
            Called as ``progress(done, total)``, in items. What it raises ends this.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> wrong = y[:500].copy()
        >>> wrong[7] = (y[7] + 1) % 10
        >>> hasher = oh.HROH(64, n_components=256, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.upsert(range(500), X[:500], wrong)
        ...     first = digits.suspects(1)[0]
        >>> first.id, first.suggested == int(y[7])
        (7, True)
        """
        self._catch_up()
        wanted = self._filter(labels).labels
        return decisions.find_suspects(self, n, wanted, progress)

    def review(self, n: int = 100, *, by: str = "uncertain", progress: Progress = _silent) -> list[ReviewItem]:
        """Return the items without a label whose labels would teach most.

        Parameters
        ----------
        n : int, default=100
            At most this many.
        by : "uncertain", "unknown" or "diverse", default="uncertain"
            The items whose most probable label is least probable; those that resemble least what was learned, in groups
            of items that resemble each other; or, of the 3 n least certain, items that are far from each other.
        progress : callable, optional
            As for :meth:`suspects`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> labels = [int(label) if row < 200 else None for row, label in enumerate(y[:500])]
        >>> hasher = oh.HROH(64, n_components=256, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.upsert(range(500), X[:500], labels)
        ...     first, second = digits.review(2)
        >>> first.id >= 200, first.score <= second.score
        (True, True)
        """
        return decisions.choose_review(self, n, by, progress)

    def risk_coverage(self) -> RiskCoverage:
        """Return the share of rows that :meth:`classify` would give a label, and the error among these, by threshold.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> hasher = oh.HROH(64, n_components=256, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.upsert(range(1000), X[:1000], y[:1000])
        ...     curve = digits.risk_coverage()
        >>> curve.n_rows, curve.coverage[-1], curve.error[-1] < 0.05
        (1000, 1.0, True)
        """
        return decisions.risk_coverage(self)

    # ------------------------------------------------------------------ insight

    def history(self) -> insight.History:
        """Return the encoders used so far, and the quality along the stream, where :meth:`measure_quality` measures it.

        The last 256 of each are kept in the collection.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> hasher = oh.HROH(n_components=128, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.measure_quality()
        ...     for start in (0, 500):
        ...         digits.upsert(range(start, start + 500), X[start : start + 500], y[start : start + 500])
        ...     digits.refresh()
        ...     history = digits.history()
        >>> [(one.generation, one.version, one.n_items) for one in history.encoders]
        [(1, 500, 500), (2, 1000, 1000)]
        >>> history.quality[0].n_learned, history.quality[0].n_queries, history.quality[0].precision > 0.8
        (1000, 16, True)
        """
        self._catch_up()
        return insight.read_history(self._settings)

    def map(self, limit: int = 1500) -> insight.ItemMap:
        """Return a random sample of the items in the plane, where those that the encoder holds for similar are close.

        It is made by t-SNE of the scores of the classes where the encoder has them, else of the real values whose signs
        are the bits. That takes seconds: some 5 for 1500 items on one core.

        Parameters
        ----------
        limit : int, default=1500
            Items at most.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> hasher = oh.HROH(n_components=128, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.upsert(range(1000), X[:1000], y[:1000])
        ...     shown = digits.map(limit=200)
        >>> len(shown.ids), shown.x.shape, len(shown.suspects) < 20
        (200, (200,), True)
        """
        return insight.item_map(self, limit)

    def measure_quality(self, k: int = 10, *, window: int = 1000, per_call: int = 16, max_error: float = 0.02) -> None:
        """Search for new items that have labels, and classify them, before they are stored and learned from.

        :meth:`stats` then has ``precision``, the mean share of items with a label of the query among the k nearest. It
        needs no held-out queries. It is kept while the collection is open, and starts again with every call. Every
        1000 learned instances, or every minute, :meth:`history` gets a record of it, which is stored.

        Parameters
        ----------
        k : int, default=10
        window : int, default=1000
            Number of last queries that the precision is the mean of.
        per_call : int, default=16
            At most this many items of one :meth:`upsert` are queries, spread evenly over it. Each costs one search.
        max_error : float, default=0.02
            Share of wrong labels that :meth:`classify` is allowed. :meth:`stats` has the share of items that get a
            label, ``coverage``, and the ``error`` among these. If that exceeds what was allowed, a warning is logged.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> hasher = oh.HROH(n_components=128, random_state=0)
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        ...     digits.measure_quality(window=100)
        ...     for start in range(0, 1500, 100):
        ...         digits.upsert(range(start, start + 100), X[start : start + 100], y[start : start + 100])
        ...     stats = digits.stats()
        >>> stats.n_queries, stats.precision > 0.8
        (224, True)
        """
        quality = insight.Quality(k, window, per_call, decisions.check_share("max_error", max_error))
        with self._changes:
            self._quality = quality

    # ------------------------------------------------------------------ maintenance

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with what the hasher knows now, in the background.

        Nothing happens if it has learned nothing since. A refresh that was interrupted is finished first.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use, and raise what went wrong; without, see :meth:`stats`.
        """
        with self._changing() as learner:
            generation = self._searcher.generation
            if not len(self._searcher.catalogue):
                return
            if generation is None:
                learner.hasher.snapshot()  # raises if it has learned nothing
            is_current = generation is not None and generation.encoder.version == learner.hasher.version_
            if is_current and not self._settings.get(DUE):
                return
            self._put_settings({DUE: True})
            number = self._refresher.ask()
        if wait:
            self._refresher.wait(number)

    def change_hasher(
        self,
        hasher: OnlineHasher | str | int,
        *,
        wait: bool = True,
        progress: Progress = _silent,
    ) -> None:
        """Learn with another hasher, from all stored items in order of arrival, and encode all items again.

        HROH changes its number of bits without learning again, and so keeps what it learned from items deleted since.
        Changes wait while it learns; searches use the current codes until the new ones take their place.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            A number of bits keeps the hasher otherwise as it is.
        wait : bool, default=True
            As for :meth:`refresh`.
        progress : callable, optional
            Called as ``progress(done, total)`` while it learns. What it raises ends that, and nothing has changed; for
            the encoding, see :meth:`stats`.
        """
        with self._changing() as learner:
            n_items = len(self._searcher.catalogue)
            new = Learner(self._store, learner.make_other(hasher, progress))
            settings: dict[str, Any] = {DUE: True} if n_items else {}
            with self._commit(settings, then=partial(setattr, self, "_learner", new)):
                settings |= new.save(self._searcher.head.seq)
            number = self._refresher.ask() if n_items and new.hasher.version_ else None
        if wait and number is not None:
            self._refresher.wait(number)

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, now and for all items to come.

        It costs some time and space per item, and pays off where few items pass. Nothing happens if there is one.

        Parameters
        ----------
        path : str
            Keys joined by dots, as in ``where``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     shop.create_index("maker.country")
        ...     shop.indexes()
        ['maker.country']
        """
        keys = parse_path(path)
        with self._changing():
            known = self.indexes()
            with self._commit({"indexes": sorted({*known, path})}):
                if path not in known:
                    self._store.create_index(keys)

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload; filters by it work as before, slowly.

        Parameters
        ----------
        path : str
        """
        keys = parse_path(path)
        with self._changing():
            known = self.indexes()
            if path not in known:
                raise InvalidInputError(f"There is no index of {path!r}; there are: {', '.join(known) or 'none'}.")
            with self._commit({"indexes": [name for name in known if name != path]}):
                self._store.drop_index(keys)

    def check(self, *, sample: int = 1000, progress: Progress = _silent) -> maintenance.CheckReport:
        """Verify everything that is stored, and return what is wrong.

        Reads all of it again from the disk: the structure of the database, every checksum, items against codes against
        counts, the hasher and the encoders. Computes the codes of a sample again. Searches and changes go on.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about; ``len(collection)`` for all.
        progress : callable, optional
            Called as ``progress(done, total)``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     pets.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
        ...     pets.check().ok
        True
        """
        self._check_open()
        return maintenance.check_store(self._store, sample, progress)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = _silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection, and check it.

        The copy shows one moment. Searches and changes go on, here and in other processes. It takes its place when it
        is complete and :meth:`check` has found nothing wrong with it; an older backup stays until then.

        Parameters
        ----------
        path : path
            A new file, or an older backup that is not open for writing. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder:
        ...     with Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...         pets.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
        ...         pets.backup(f"{folder}/monday.oh")
        ...     with Collection.open(f"{folder}/monday.oh", readonly=True) as copy:
        ...         len(copy)
        2
        """
        self._check_open()
        maintenance.copy(self._store, Path(path), progress)

    @staticmethod
    def restore(
        backup: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Progress = _silent,
    ) -> None:
        """Check a backup, and put a copy of it where a collection is to be.

        Parameters
        ----------
        backup : path
            A file that :meth:`backup` wrote, or any other collection.
        path : path
            Where the collection is to be. Nobody may have it open for writing; those who read it open it again.
        overwrite : bool, default=False
            Replace a collection that is there.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        maintenance.restore(Path(backup), Path(path), overwrite, progress)

    def compact(self) -> int:
        """Give the space of deleted and replaced items back to the disk, and return the number of bytes.

        Changes wait; searches go on. Takes as much free space as the collection will need.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "lsh") as pets:
        ...     pets.upsert(range(2000), [[1.0, 0.5]] * 2000)
        ...     n_deleted = pets.delete(range(1, 2000))
        ...     pets.compact() > 100_000
        True
        """
        with self._changing():
            self._save_hasher()  # what it has learned from may go then
            before = self._store.size()
            self._store.compact()
            return before - self._store.size()

    # ------------------------------------------------------------------ another embedding model

    @property
    def migration(self) -> Migration | None:
        """The migration under way; None if there is none."""
        self._catch_up()
        return migrations.under_way(self._store, self._settings)

    def migrate(
        self,
        *,
        embed: Any = None,
        vectors: Pairs | None = None,
        progress: Progress = _silent,
    ) -> None:
        """Move to another embedding model, of any width, while other threads search and change the collection.

        New vectors are stored beside the old ones, in batches. Searches use the old vectors, embedder and codes until
        all items have new ones, those included that come meanwhile. Then a hasher like the present one learns and
        encodes them, and one transaction replaces vectors, hasher, codes and embedder; changes wait for that, searches
        do not.

        Interrupted anywhere, even by a crash, the collection is as it was: call it again to go on with what is left,
        or :meth:`abandon_migration`.

        Parameters
        ----------
        embed : name, callable or model, optional
            The new embedder, as for :meth:`open`. Documents come from the payload, where the collection keeps them.
        vectors : iterable of (id, vector), optional
            New vectors that were computed elsewhere; ids that are unknown are ignored. With ``embed``, which then names
            the model that made them, only the documents of the remaining items are embedded. Without, the collection
            has no embedder afterwards, and if items have no new vector yet, it raises, keeps what it has, and goes on
            when it is called again with theirs.
        progress : callable, optional
            Called as ``progress(done, total)``, in items that have a new vector.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> texts, labels = ["my card is lost", "lost card", "refund, please", "a refund"], [0, 0, 1, 1]
        >>> folder = TemporaryDirectory()
        >>> hasher = oh.HCOH(8, random_state=0)
        >>> tickets = oh.Collection.open(f"{folder.name}/tickets.oh", hasher, embed="char_ngrams:64")
        >>> tickets.upsert(range(4), documents=texts, labels=labels)
        >>> tickets.migrate(embed="char_ngrams:512")
        >>> tickets.embedder, tickets.n_features, tickets.search("where is my card?", k=2).ids
        ('char_ngrams:512', 512, [0, 1])
        >>> tickets.close()
        >>> folder.cleanup()
        """
        new = None if embed is None else as_embedder(embed)
        migrations.migrate(self, new, vectors, progress)

    def abandon_migration(self) -> None:
        """Drop the new vectors of a migration under way; the collection stays as it is."""
        with self._changing():
            if self._settings.get("migration") is not None:
                with self._commit({"migration": None}):
                    self._store.end_migration(adopt=False)
