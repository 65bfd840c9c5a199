"""Collection: items on disk, searched while their hash functions change."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_choice
from onlinehash.collection import incoming, learning
from onlinehash.collection.generation import Generation
from onlinehash.collection.reading import Reading
from onlinehash.collection.refresh import Outlook, Policy, WhenIdle, pack_policy, unpack_policy
from onlinehash.collection.renewal import Renewal
from onlinehash.collection.stores import open_store
from onlinehash.collection.stores.protocol import Position, Rows, Store
from onlinehash.collection.types import Stats
from onlinehash.encoders import Encoder
from onlinehash.exceptions import (
    DataNotFoundError,
    InvalidInputError,
    NotLearnedError,
    OnlineHashError,
    StorageError,
)
from onlinehash.hashers import OnlineHasher, load_hasher
from onlinehash.hashers._threads import single_threaded_products
from onlinehash.types import Features

_log = logging.getLogger(__name__)
_STATE_SHARE = 4  # the hasher's state is written once this many times its size of vectors came since
_STATE_LEAST = 1 << 20
_REST = 3  # searches that waited for a refresh are followed by this many times as long without


class Collection(Reading):
    """Keep items in one file or an engine, learn from them as they come, and search their codes at any time.

    The SQLite of learned binary codes: it lives in the user's process, and what :meth:`upsert` has acknowledged
    survives the end of the process and of the power. The hasher learns from every item with a label (from every item,
    if it is unsupervised). Codes belong to a generation: the encoder that made them, which also encodes the queries.
    When the hasher has moved on far enough, which the refresh policy decides, and when no more items come, a background
    thread encodes all items again from the stored vectors and swaps the codes in whole; searches and changes go on
    meanwhile.

    Collections are opened with :meth:`open`. One process writes; others may read with ``readonly=True``. Within a
    process all methods may be called from any thread: changes happen one after the other, searches side by side.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> vectors, y = oh.load_dataset("digits").split().stream
    >>> folder = TemporaryDirectory()
    >>> digits = oh.Collection.open(f"{folder.name}/digits.oh", oh.HCOH(random_state=0))
    >>> digits.upsert(range(1000), vectors[:1000], y[:1000])
    >>> digits.upsert(5000, vectors[1000], y[1000], payload={"title": "a digit"})
    >>> len(digits), digits.get(5000)[0].payload
    (1001, {'title': 'a digit'})
    >>> hits = digits.search(vectors[1000], k=3, labels=7)
    >>> {item.labels for item in digits.get(hits.ids)}
    {7}
    >>> digits.close()
    >>> folder.cleanup()
    """

    def __init__(self, store: Store, policy: Policy) -> None:
        super().__init__(store)
        self._policy = policy
        self._idle = policy if isinstance(policy, WhenIdle) else None
        self._renewal = Renewal(
            store,
            self._live,
            self._changes,
            consider=self._consider,
            is_stale=self._is_stale,
            idle=None if self._idle is None else self._idle.seconds,
        )
        self._hasher: OnlineHasher | None = None  # None: read it and the codes again before the next change
        self._n_learned = 0
        self._looked_at = 0
        self._refreshed_at = -1  # instances learned when an idle collection was last refreshed, or that was tried
        self._behind_since: float | None = None  # time.monotonic() when a search first found the codes far behind
        self._next_wait = 0.0  # time.monotonic() before which no search waits for a refresh again
        self._judged, self._logged = Position(0, 0), 0  # where a reader last compared, and which generation it logged
        self._unsaved, self._state_size = 0, 0

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
        engine: str | None = None,
    ) -> Self:
        """Open a collection; create it if there is none.

        A refresh that was interrupted goes on in the background.

        Parameters
        ----------
        path : path of the file
            Two more, ending in ``-wal`` and ``-shm``, appear beside it while it is open, and a ``.lock``. With an
            engine, the name of the collection: letters, digits and ``_``.
        hasher : hasher or name of one, optional
            Needed to create. The collection learns on a copy of its own. For a collection that exists, it must be the
            one it has; :meth:`change_hasher` changes it.
        refresh : WhenIdle, WhenDrifted, WhenInformative, Every or Never, optional
            When to encode all items again; stored in the collection. ``WhenIdle(WhenDrifted())`` when created.
        vector_dtype : "float32" or "float16", optional
            In which vectors are stored; "float32" when created.
        readonly : bool, default=False
            See what another process commits; changes are refused.
        engine : str, optional
            Where the collection lives and is searched, if not in a file: ``"postgresql://user@host/database"``.
        """
        given = None if hasher is None else learning.as_hasher(hasher)
        packed = None if refresh is None else pack_policy(refresh)
        if vector_dtype is not None:
            check_choice("vector_dtype", vector_dtype, ("float32", "float16"))
        store = open_store(path, engine, readonly=readonly, create=given is not None)
        try:
            if store.setting("vector_dtype") is None:
                _create(store, given, vector_dtype or "float32")
            stored_dtype = store.setting("vector_dtype")
            if vector_dtype not in (None, stored_dtype):
                raise InvalidInputError(f"vector_dtype={vector_dtype!r}, but {path} stores {stored_dtype}.")
            collection = cls(store, refresh or unpack_policy(store.setting("refresh")))
            if readonly:
                collection._catch_up()
                return collection
            collection._read()
            collection._check_recipe(hasher)
            if packed is not None:
                with store.writing():
                    store.put_setting("refresh", packed)
            collection._after_change()
            collection._renewal.start()
        except BaseException:
            store.close()
            raise
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
        wanted = self._idle is not None if refresh is None else refresh
        if wanted and not (self._closed or self._store.readonly):
            try:
                with self._exclusive():  # not while a refresh is about to begin
                    pending = self._is_pending()
                if refresh or pending:
                    self.refresh()
            except OnlineHashError as error:
                _log.warning("The refresh before closing failed: %s", error)
        self._renewal.halt()
        with self._changes:
            if self._closed:
                return
            self._closed = True
            if self._hasher is not None and self._unsaved:
                # A state that cannot be written is no loss: what it has learned is learned again.
                with suppress(StorageError), self._store.writing():
                    self._save_state(self._hasher)
            self._hasher = None
            self._store.close()
        if self._idle is not None and not self._store.readonly and self._is_pending():
            _log.warning(
                "Closed with codes that do not know %d of %d learned instances; the next writer refreshes them.",
                self._n_learned - self._version(),
                self._n_learned,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(refresh=None if kind is None else False)

    def __repr__(self) -> str:
        return "<Collection, closed>" if self._closed else f"<Collection of {len(self)} items>"

    def _read(self) -> None:
        """Read the hasher and all codes from the store."""
        self._live.read()
        self._position = self._store.position()
        self._hasher = learning.restore(self._store)
        self._unsaved, self._state_size = self._position.seq - self._store.state_seq(), len(self._store.state())
        self._n_learned, self._looked_at = learning.n_learned(self._hasher), self._version()

    def _check_recipe(self, hasher: OnlineHasher | str | None) -> None:
        assert self._hasher is not None
        if hasher is None or (isinstance(hasher, str) and hasher.lower() == self._hasher.name):
            return
        given = learning.as_hasher(hasher) if isinstance(hasher, str) else hasher
        if not learning.same_recipe(self._hasher, given):
            raise InvalidInputError(
                f"This collection learns with {self._hasher!r}, not {given!r}. Open it without a hasher, and call "
                "collection.change_hasher(...) to change it."
            )

    # ------------------------------------------------------------------ changing

    def upsert(
        self,
        ids: Any,
        vectors: ArrayLike,
        labels: Any = None,
        payload: Any = None,
        *,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Store items, learn from them and make them searchable; an item whose id is there already is replaced.

        The call is applied whole, durably, or not at all.

        Parameters
        ----------
        ids : int or str, or several
            All integers or all strings in one collection.
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            A label an item, integers or strings, as :meth:`OnlineHasher.partial_fit` takes them; None or NaN for an
            item without. Several labels an item are lists. For one id: its label, or a list of them.
        payload : optional
            A small JSON value an item, in a list; for one id, the value itself.
        checkpoint : mapping of str to JSON value, optional
            JSON committed in the same transaction as the items, such as the position in a stream that they came from.
            Read it with :meth:`checkpoint`.
        """
        with self._exclusive():
            hasher = self._ready()
            single = incoming.is_single(ids)
            listed = incoming.check_item_ids(ids, self.id_type, ordered=True)
            noted = incoming.checkpoint_settings(checkpoint)
            if not listed:
                self._note(noted)
                return
            names = incoming.check_names(vectors, self._store)
            vectors = incoming.check_rows(
                vectors, len(listed), single, self.n_features, self._store.setting("vector_dtype")
            )
            label_kind = self._store.setting("label_kind")
            texts, label_kind = incoming.label_texts(labels, len(listed), single, label_kind)
            payloads = incoming.payload_texts(payload, len(listed), single)
            self._put(hasher, listed, vectors, texts, payloads, {"label_kind": label_kind, **names, **noted})

    def update(self, ids: Any, vectors: ArrayLike | None = None, labels: Any = ..., payload: Any = ...) -> None:
        """Change what is given of items that are there; the hasher learns from them again if vectors or labels are.

        Parameters
        ----------
        ids, vectors, labels, payload
            As for :meth:`upsert`. If an id is unknown, nothing changes.
        """
        with self._exclusive():
            hasher = self._ready()
            single = incoming.is_single(ids)
            listed = self._demand_known(incoming.check_item_ids(ids, self.id_type, ordered=True))
            if not listed:
                return
            old = self._store.rows(listed)
            rows, texts, payloads = old.vectors, old.labels, old.payloads
            label_kind = self._store.setting("label_kind")
            names = {} if vectors is None else incoming.check_names(vectors, self._store)
            if vectors is not None:
                rows = incoming.check_rows(
                    vectors, len(listed), single, self.n_features, self._store.setting("vector_dtype")
                )
            if labels is not ...:
                texts, label_kind = incoming.label_texts(labels, len(listed), single, label_kind)
            if payload is not ...:
                payloads = incoming.payload_texts(payload, len(listed), single)
            if vectors is not None or labels is not ...:
                self._put(hasher, listed, rows, texts, payloads, {"label_kind": label_kind, **names})
            elif payload is not ...:
                with self._store.writing():
                    self._store.put_payloads(listed, payloads)

    def delete(
        self,
        ids: Any,
        *,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete items. What was learned from them stays learned, unless it is unlearned too.

        Parameters
        ----------
        ids : int or str, or several
        missing : "raise" or "ignore", default="raise"
            What to do about unknown ids; if it raises, nothing is deleted.
        unlearn : bool, default=False
            Unlearn them too, exactly, which HROH can and others refuse. The codes of the other items are those of
            before until the next refresh. What was learned from versions of an item that were replaced since stays.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        check_choice("missing", missing, ("raise", "ignore"))
        with self._exclusive():
            hasher = self._ready()
            listed = incoming.check_item_ids(ids, self.id_type)
            noted = incoming.checkpoint_settings(checkpoint)
            if missing == "raise":
                self._demand_known(listed)
            else:
                listed = [id for id, seq in zip(listed, self._store.seqs(listed), strict=True) if seq is not None]
            if not listed:
                self._note(noted)
                return
            doomed = self._store.rows(listed) if unlearn else None
            last = self._position.seq + len(listed)
            self._hasher = None
            if doomed is not None:
                try:
                    learning.unlearn(hasher, doomed.vectors, doomed.labels)
                except OnlineHashError:
                    self._hasher = hasher  # a hasher that refuses has not changed
                    raise
            with self._store.writing():
                self._store.delete(listed, self._position.seq + 1)
                self._put_settings(noted)
                if doomed is not None:
                    self._store.put_setting("n_learned", learning.n_learned(hasher))
                    self._save_state(hasher, last)
            self._position = self._position._replace(seq=last)
            self._live.delete(listed)
            self._hasher = hasher
            self._n_learned = learning.n_learned(hasher)
            if doomed is not None:
                self._after_change()

    def _put(
        self,
        hasher: OnlineHasher,
        ids: list[Any],
        vectors: NDArray[Any],
        labels: list[str | None],
        payloads: list[str | None],
        settings: Mapping[str, Any],
    ) -> None:
        """Learn from checked items, store them with their codes, then change memory."""
        first = self._position.seq + 1
        rows = Rows(ids, list(range(first, first + len(ids))), vectors, labels, payloads)
        generations = (self._live.current, self._live.building)
        codes = {one.number: one.encode(vectors) for one in generations if one is not None}
        # From here to the end memory may be ahead of the store: if anything fails, both are made equal again.
        self._hasher = None
        try:
            learning.learn(hasher, vectors, labels)
        except OnlineHashError:
            self._hasher = hasher  # input that a hasher refuses has not changed it
            raise
        learning.name_features(hasher, settings.get("feature_names"))
        self._unsaved += vectors.nbytes
        with self._store.writing():
            self._put_settings({"n_features": vectors.shape[1], **settings})
            self._store.put(rows, codes)
            self._store.put_setting("n_learned", learning.n_learned(hasher))
            if self._unsaved > max(_STATE_LEAST, _STATE_SHARE * self._state_size):
                self._save_state(hasher, rows.seqs[-1])
        self._position = self._position._replace(seq=rows.seqs[-1])
        self._live.put(ids, codes, labels)
        self._hasher, self._n_learned = hasher, learning.n_learned(hasher)
        self._after_change()

    def checkpoint(self, name: str) -> Any:
        """Return what :meth:`upsert` or :meth:`delete` has stored under a name last; None if nothing.

        Parameters
        ----------
        name : str
        """
        return self._store.setting(f"{incoming.CHECKPOINT}{name}")

    def _note(self, settings: Mapping[str, Any]) -> None:
        if settings:
            with self._store.writing():
                self._put_settings(settings)

    def _put_settings(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            self._store.put_setting(name, value)

    def _save_state(self, hasher: OnlineHasher, learned_to: int | None = None) -> None:
        state = hasher.to_bytes()
        self._store.put_state(state, self._position.seq if learned_to is None else learned_to)
        self._unsaved, self._state_size = 0, len(state)

    def _ready(self) -> OnlineHasher:
        """Return the hasher, in step with the store."""
        self._check_open()
        if self._store.readonly:
            raise StorageError("This collection is open with readonly=True; open it for writing to change it.")
        if self._hasher is None:
            with self._store.writing():  # where another might have written meanwhile, not before it is ruled out
                self._read()
        assert self._hasher is not None
        return self._hasher

    # ------------------------------------------------------------------ telling

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the hasher, with all it has learned."""
        with self._exclusive():
            if self._hasher is not None:
                return load_hasher(self._hasher.to_bytes())
            with self._store.reading():
                return learning.restore(self._store)

    def stats(self) -> Stats:
        """Return how many items, instances and codes there are, and what is pending."""
        self._catch_up()
        with self._store.reading():
            n_items, n_learned = len(self), self._store.setting("n_learned", 0)
            method, n_bits = self._store.setting("method"), self._store.setting("n_bits")
            bits_recomputed = self._store.setting("bits_recomputed", 0)
            building, n_built = self._building()
        current, error = self._live.current, self._renewal.error
        version = None if current is None else current.encoder.version
        stale = self._idle is not None and version is not None and self._idle.is_stale(n_learned, version)
        return Stats(
            n_items=n_items,
            n_searchable=self._live.n_searchable(),
            n_learned=n_learned,
            method=method,
            n_bits=n_bits if current is None else current.encoder.n_bits,
            generation=0 if current is None else current.number,
            version=version,
            staleness=n_learned - (version or 0),
            index=self._live.kind,
            refreshing=building,
            progress=min(1.0, n_built / max(1, n_items)) if building else 1.0,
            pending=building or stale,
            bits_recomputed=bits_recomputed,
            refresh_error=None if error is None else str(error),
            n_bytes=self._store.size(),
        )

    def _building(self) -> tuple[bool, int]:
        """Return whether a generation is being made, here or by another process, and how many items it holds."""
        if not self._store.readonly:
            return self._live.building is not None, self._live.n_built()
        number = next((row.number for row in self._store.generations() if not row.current), None)
        return number is not None, 0 if number is None else self._store.n_coded(number)

    # ------------------------------------------------------------------ refreshing

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with what the hasher knows now, in the background.

        Nothing happens if it has learned nothing since. A refresh that was interrupted is finished first.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use, and raise what went wrong; without, see :meth:`stats`.
        """
        with self._exclusive():
            self._ready()
            self._renewal.error = None
            self._renewal.start()
        if wait:
            self._renewal.wait()
        with self._exclusive():
            hasher, current = self._ready(), self._live.current
            stale = current is None or current.encoder.version != learning.n_learned(hasher)
            if self._live.building is None and stale and len(self):
                self._begin(hasher.snapshot())
                self._renewal.start()
        if wait:
            self._renewal.wait()

    def change_hasher(self, hasher: OnlineHasher | str | int, *, wait: bool = True) -> None:
        """Learn with another hasher, from all stored items in the order they came, and encode all items again.

        HROH changes its number of bits without learning again, and so keeps what it learned from items deleted since.
        Changes wait while it learns; searches use the current codes until the new ones take their place.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            A number of bits keeps the hasher otherwise as it is.
        wait : bool, default=True
            As for :meth:`refresh`.
        """
        self._renewal.halt()
        with self._exclusive():
            now = self._ready()
            if isinstance(hasher, int):
                new = learning.with_bits(now, hasher, self._store)
            else:
                new = learning.as_hasher(hasher)
                learning.relearn(new, self._store)
            try:
                encoder = new.snapshot() if len(self) else None
            except NotLearnedError:
                encoder = None
            self._hasher = None
            with self._store.writing():  # one transaction: never the new hasher beside codes that nobody replaces
                _put_hasher(self._store, new, self._position.seq)
                number = None if encoder is None else self._store.begin_generation(encoder.to_bytes())
            self._hasher, self._n_learned = new, learning.n_learned(new)
            self._unsaved, self._state_size = 0, len(self._store.state())
            if encoder is not None and number is not None:
                self._live.begin(number, encoder)
                self._looked_at = encoder.version
                self._renewal.start()
        if wait:
            self._renewal.wait()

    def _after_change(self) -> None:
        """Make the first generation as soon as there can be one, and ask the policy about the next."""
        self._consider(False)
        self._renewal.changed()

    def _consider(self, idle: bool) -> None:
        try:
            self._consider_refresh(idle)
        except OnlineHashError as error:  # the change itself is done: see stats()
            self._renewal.error = error

    def _consider_refresh(self, idle: bool) -> None:
        hasher, current, n_learned = self._hasher, self._live.current, self._n_learned
        if hasher is None or self._live.building is not None or not n_learned or not len(self):
            return
        if current is None or (current.encoder.method, current.encoder.n_bits) != (hasher.name, hasher.n_bits):
            self._begin(hasher.snapshot())
            self._renewal.run()
            return
        if idle:
            stale, self._refreshed_at = self._is_stale(), n_learned
            if stale:
                self._begin(hasher.snapshot())
            return
        if not self._policy.is_due(n_learned, self._looked_at):
            return
        self._looked_at = n_learned
        snapshot = cache(hasher.snapshot)
        outlook = Outlook(n_learned - current.encoder.version, current.encoder, snapshot, self._sample)
        with single_threaded_products(len(self)):
            due = self._policy.should_refresh(outlook)
        if due:
            self._begin(snapshot())
            self._renewal.start()

    def _version(self) -> int:
        current = self._live.current
        return 0 if current is None else current.encoder.version

    def _is_stale(self) -> bool:
        """Return whether an idle collection has codes to refresh, and has not tried that yet."""
        return (
            self._idle is not None
            and self._live.current is not None
            and self._n_learned != self._refreshed_at
            and self._idle.is_stale(self._n_learned, self._version())
        )

    def _is_pending(self) -> bool:
        return self._live.building is not None or self._is_stale()

    def _await_codes(self) -> None:
        """Wait for a refresh while the codes are far behind what was learned, as long as the policy has patience."""
        idle, current = self._idle, self._live.current
        if idle is None or current is None:
            return
        if self._store.readonly:
            self._log_if_far_behind(idle, current)
            return
        n_learned = self._n_learned
        if not idle.is_far_behind(n_learned, current.encoder.version):
            self._behind_since = None
            return
        start = time.monotonic()
        if self._behind_since is None:
            if start < self._next_wait:
                return
            self._behind_since = start
        patience = self._behind_since + idle.patience - start
        if patience > 0:
            self._renewal.hurry()
            self._renewal.wait_for(lambda: not idle.is_far_behind(n_learned, self._version()), patience)
            end = time.monotonic()
            self._next_wait = end + _REST * (end - start)

    def _log_if_far_behind(self, idle: WhenIdle, current: Generation) -> None:
        """Say once per generation, where another process writes, that it is still to refresh the codes."""
        if self._position == self._judged or self._logged == current.number:
            return
        self._judged = self._position
        n_learned = self._store.setting("n_learned", 0)
        if idle.is_far_behind(n_learned, current.encoder.version):
            self._logged = current.number
            _log.warning(
                "The codes searched do not know %d of %d learned instances; the writer has yet to refresh them.",
                n_learned - current.encoder.version,
                n_learned,
            )

    def _begin(self, encoder: Encoder) -> None:
        """Start a generation."""
        with self._store.writing():
            number = self._store.begin_generation(encoder.to_bytes())
        self._live.begin(number, encoder)
        self._looked_at = encoder.version

    def _sample(self, n_items: int) -> tuple[Features, list[tuple[Any, ...]]]:
        """Return vectors and labels of searchable items at random."""
        rows = self._store.rows(self._live.sample(n_items, self._position.seq))
        labels = [incoming.labels_of(text) for text in rows.labels]
        sets = [() if some is None else some if isinstance(some, tuple) else (some,) for some in labels]
        return rows.vectors, sets


def _create(store: Store, hasher: OnlineHasher | None, vector_dtype: str) -> None:
    """Write what makes an empty store a collection."""
    if hasher is None:
        raise DataNotFoundError("There is no collection in this place yet; pass a hasher to create it.")
    with store.writing():
        store.put_setting("vector_dtype", vector_dtype)
        store.put_setting("refresh", pack_policy(WhenIdle()))
        _put_hasher(store, hasher, 0)


def _put_hasher(store: Store, hasher: OnlineHasher, learned_to: int) -> None:
    store.put_state(hasher.to_bytes(), learned_to)
    store.put_setting("method", hasher.name)
    store.put_setting("n_bits", hasher.n_bits)
    if hasattr(hasher, "feature_names_in_"):
        store.put_setting("feature_names", list(hasher.feature_names_in_))
    store.put_setting("n_learned", learning.n_learned(hasher))
