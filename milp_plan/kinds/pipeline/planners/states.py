"""States of a beam search, one per row, and its resulting schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from .tables import Array, BeamTables


@dataclass
class States:
    """Partial schedules.

    Parameters
    ----------
    count
        Started tasks per kind.
    busy
        Machine -> end of its last task.
    ready, start
        Kind -> when its next task has all inputs, and when it could start; far away if unknown.
    tail
        Kind -> least time from the start of its next task to the end of the schedule.
    rest
        Machine -> work not started and least tail after it; far below 0 where all is started.
    stops
        Ring of ends of the last tasks per kind.
    held
        Columns of the memory rules.
    key
        Hash of the counts and the group.
    group
        Index of the tuning.
    """

    count: Array
    busy: Array
    ready: Array
    start: Array
    tail: Array
    rest: Array
    stops: Array
    held: Array
    key: Array
    group: Array

    def take(self, rows: Array) -> States:
        """Return these rows."""
        return States(*(getattr(self, f.name).take(rows, 0) for f in fields(self)))


@dataclass(frozen=True)
class Start:
    """Start of a search: ``order`` (kinds in the order started) leads to the one state.

    ``earlier`` are stations on the way to it, by their level.
    """

    order: tuple[int, ...]
    state: States
    earlier: dict[int, Start] = field(default_factory=dict)


@dataclass(frozen=True)
class BeamResult:
    """A complete schedule.

    ``value`` counts earliest starts and, for the span, machines from their releases; ``order``
    holds the kinds in the order started; ``stations`` are states on the way by their level.
    """

    value: int
    order: tuple[int, ...]
    group: int
    stations: dict[int, Start]

    def start(self, level: int) -> Start:
        """Return the start at a station."""
        earlier = {one: station for one, station in self.stations.items() if one < level}
        return replace(self.stations[level], earlier=earlier)


def root(tables: BeamTables) -> Start:
    """Return the start with no task started."""
    waits = (tables.before >= 0).any(0)
    ready = np.where(waits, tables.far, 0).astype(tables.type)[None, :]
    one = np.zeros(1, dtype=np.int64)
    state = States(
        count=np.zeros((1, tables.kinds), dtype=np.int32),
        busy=np.zeros((1, tables.machines), dtype=tables.type),
        ready=ready,
        start=ready,
        tail=tables.tails[tables.row][None, :],
        rest=(tables.work + tables.last)[None, :],
        stops=np.zeros((1, tables.kinds * tables.ring), dtype=tables.type),
        held=np.zeros((1, tables.change.shape[1]), dtype=np.int64),
        key=one,
        group=one,
    )
    return Start((), state)


def joined(states: Sequence[States], rng: np.random.Generator) -> States:
    """Return one group per state."""
    columns = (np.concatenate([getattr(s, f.name) for s in states]) for f in fields(States))
    merged = States(*columns)
    merged.key = rng.integers(1 << 62, size=len(states))
    merged.group = np.arange(len(states))
    return merged
