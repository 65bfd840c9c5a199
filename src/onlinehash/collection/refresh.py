"""When to encode all items again: policies that compare what was learned since with the codes in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive, check_positive_int
from onlinehash.codes import unpack_bits
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.hashers.mihash_kernels import mutual_information, share_a_label
from onlinehash.types import Features

_FAR = 0.1  # share of the learned instances that the codes do not know


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a policy may look at."""

    n_learned: int  # since the encoder in use was made
    encoder: Encoder  # the one in use
    snapshot: Callable[[], Encoder]  # gives the encoder that a refresh would take
    # sample(n) gives the vectors of n stored items at random, and one set of labels per item
    sample: Callable[[int], tuple[Features, list[frozenset[Label]]]]


class Policy:
    """Decides when to refresh; the base class never does."""

    def is_due(self, n_learned: int, looked_at: int) -> bool:
        """Return whether to look again after ``n_learned`` instances, having looked after ``looked_at``."""
        return False

    def should_refresh(self, outlook: Outlook) -> bool:
        """Return whether all items should be encoded again now."""
        return False


@dataclass(frozen=True)
class Never(Policy):
    """Keep the codes until :meth:`Collection.refresh` is called.

    Examples
    --------
    >>> Never().is_due(10**6, looked_at=0)
    False
    """


@dataclass(frozen=True)
class Every(Policy):
    """Refresh after every ``n`` instances learned.

    Examples
    --------
    >>> Every(1000).is_due(2500, looked_at=2000)
    False
    """

    n: int

    def __post_init__(self) -> None:
        check_positive_int("n", self.n)

    def is_due(self, n_learned: int, looked_at: int) -> bool:
        """Return whether n were learned since."""
        return n_learned - looked_at >= self.n

    def should_refresh(self, outlook: Outlook) -> bool:
        """Return True once n were learned."""
        return outlook.n_learned >= self.n


class _Sampling(Policy):
    """Looks at a sample of the items, the less often the more was learned."""

    every: int
    sample: int

    def __post_init__(self) -> None:
        check_positive_int("every", self.every)
        check_positive_int("sample", self.sample)

    def is_due(self, n_learned: int, looked_at: int) -> bool:
        """Return whether enough was learned since to look again."""
        return n_learned - looked_at >= max(self.every, looked_at // 10)


@dataclass(frozen=True)
class WhenDrifted(_Sampling):
    """Refresh when bits have flipped: a share of those of a sample of stored items, under the encoder of now.

    Parameters
    ----------
    share : float, default=0.05
    every : int, default=1000
        Instances between two looks, or a tenth of all that was learned, if that is more: hash functions move ever
        less, and a look costs a snapshot.
    sample : int, default=500
        Items looked at.

    Examples
    --------
    >>> WhenDrifted(share=0.1)
    WhenDrifted(share=0.1, every=1000, sample=500)
    """

    share: float = 0.05
    every: int = 1000
    sample: int = 500

    def __post_init__(self) -> None:
        check_positive("share", self.share)
        super().__post_init__()

    def should_refresh(self, outlook: Outlook) -> bool:
        """Compare the codes of a sample."""
        rows, _ = outlook.sample(self.sample)
        new, old = outlook.snapshot(), outlook.encoder
        flipped = unpack_bits(new.encode(rows) ^ old.encode(rows), old.n_bits)
        return bool(flipped.mean() >= self.share)


@dataclass(frozen=True)
class WhenInformative(_Sampling):
    """Refresh when distances would tell more about labels: the trigger of MIHash, on a sample of stored items.

    Measures the mutual information, in bits, between the Hamming distance of two items and whether they share a
    label, under the encoder in use and under that of now.

    Parameters
    ----------
    gain : float, default=0.01
        By which it must have grown ("theta").
    every : int, default=1000
        Instances between two looks, or a tenth of all that was learned, if that is more: hash functions move ever
        less, and a look costs a snapshot.
    sample : int, default=500
        Items looked at; those without labels are left out.

    Examples
    --------
    >>> WhenInformative(gain=0.05)
    WhenInformative(gain=0.05, every=1000, sample=500)
    """

    gain: float = 0.01
    every: int = 1000
    sample: int = 500

    def __post_init__(self) -> None:
        check_positive("gain", self.gain)
        super().__post_init__()

    def should_refresh(self, outlook: Outlook) -> bool:
        """Compare what the codes of a sample tell."""
        rows, labels = outlook.sample(self.sample)
        labelled = np.array([bool(some) for some in labels], bool)
        if labelled.sum() < 2:
            return False
        numbers = _numbers([some for some in labels if some])
        neighbours = share_a_label(numbers, numbers)
        new, old = (
            mutual_information(encoder.encode(rows[labelled]), neighbours, encoder.n_bits)
            for encoder in (outlook.snapshot(), outlook.encoder)
        )
        return new - old >= self.gain


@dataclass(frozen=True)
class WhenIdle(Policy):
    """Refresh what is stale as soon as no more changes come, on top of another policy.

    When a load ends, the codes are those of all that was learned: an idle collection refreshes in the background,
    :meth:`Collection.close` refreshes first, and a search that finds the codes far behind waits for them.

    Parameters
    ----------
    policy : Never, Every, WhenDrifted or WhenInformative, default=WhenDrifted()
        Decides while changes come.
    seconds : float, default=0.5
        Time without a change after which the collection is idle.
    share : float, default=0.01
        Codes are stale if at least this share of the learned instances came after their encoder was made.
    patience : float, default=10.0
        Seconds that searches wait for a refresh if this share is 10 % or more. After that, and with 0, they search the
        codes there are. Where changes and searches alternate, at most a quarter of the time goes into waiting.

    Examples
    --------
    >>> WhenIdle(Every(1000)).is_stale(n_learned=1005, version=1000), WhenIdle().is_stale(n_learned=8000, version=1000)
    (False, True)
    """

    policy: Never | Every | WhenDrifted | WhenInformative = WhenDrifted()
    seconds: float = 0.5
    share: float = 0.01
    patience: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.policy, (Never, Every, WhenDrifted, WhenInformative)):
            raise InvalidInputError(f"policy={self.policy!r} is none of Never, Every, WhenDrifted and WhenInformative.")
        check_positive("seconds", self.seconds)
        check_positive("share", self.share)
        if self.patience != 0:
            check_positive("patience", self.patience)

    def is_due(self, n_learned: int, looked_at: int) -> bool:
        """Ask the policy."""
        return self.policy.is_due(n_learned, looked_at)

    def should_refresh(self, outlook: Outlook) -> bool:
        """Ask the policy."""
        return self.policy.should_refresh(outlook)

    def is_stale(self, n_learned: int, version: int) -> bool:
        """Return whether an idle collection refreshes codes of this version."""
        return abs(n_learned - version) >= max(1.0, self.share * n_learned)

    def is_far_behind(self, n_learned: int, version: int) -> bool:
        """Return whether searches wait for better codes than those of this version."""
        return self.is_stale(n_learned, version) and abs(n_learned - version) >= _FAR * n_learned


def _numbers(labels: list[frozenset[Label]]) -> NDArray[np.int64]:
    """Return labels as numbers; rows with fewer than the most are filled up with -1."""
    known: dict[Label, int] = {}
    numbers = np.full((len(labels), max(map(len, labels))), -1)
    for row, some in zip(numbers, labels, strict=True):
        row[: len(some)] = [known.setdefault(label, len(known)) for label in some]
    return numbers


POLICIES = {policy.__name__: policy for policy in (Never, Every, WhenDrifted, WhenInformative, WhenIdle)}


def pack_policy(policy: Any) -> dict[str, Any]:
    """Return a policy as JSON.

    Examples
    --------
    >>> pack_policy(Every(5)), unpack_policy({"policy": "Every", "n": 5})
    ({'policy': 'Every', 'n': 5}, Every(n=5))
    """
    if type(policy) not in POLICIES.values():
        raise InvalidInputError(f"refresh={policy!r} is not a policy; use {', '.join(POLICIES)}.")
    parameters = dict(vars(policy))
    if isinstance(policy, WhenIdle):
        parameters["on"] = pack_policy(parameters.pop("policy"))
    return {"policy": type(policy).__name__, **parameters}


def unpack_policy(packed: dict[str, Any]) -> Policy:
    """Return the policy that :func:`pack_policy` packed."""
    name = packed["policy"]
    if name not in POLICIES:
        raise FileFormatError(f"The collection has a refresh policy {name!r}, unknown here. Upgrade onlinehash.")
    parameters = {id: value for id, value in packed.items() if id not in ("policy", "on")}
    if "on" in packed:
        parameters["policy"] = unpack_policy(packed["on"])
    policy: Policy = POLICIES[name](**parameters)
    return policy
