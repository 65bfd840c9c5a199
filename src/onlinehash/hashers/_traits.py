"""Traits: a row of the table of all methods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """Input, cost per instance, memory and strength of a method, for the table of all methods (d features, r bits)."""

    takes: str
    cost: str
    memory: str
    shines: str
