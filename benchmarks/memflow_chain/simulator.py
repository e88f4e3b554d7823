"""A simulator that knows memory: steps in a given order, and only what changed is simulated again.

Every device, channel and port serves what it is asked for in the order of the steps. An operator
that comes a second time runs again: it leaves new copies, and whoever comes later reads those. That
is what the law says (docs/laws.md, `Runs again, and hosts`) as long as nobody who reads an older
copy starts after the newer one is complete, so a run again waits until all of them have started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from milp_plan.core import OperatorRun, Plan, Transfer
from milp_plan.kinds.schedule.planners.indexed import Indexed, Leg, Spot

Step = Spot
"""An operator as it runs; the second time it comes, it runs again."""


_NEVER = 1 << 62
"""Later than anything."""


class Measure(NamedTuple):
    """Ticks until the last operator stops, and bytes that each device holds at most."""

    ticks: int
    peaks: tuple[int, ...]


@dataclass(slots=True)
class _Made:
    """Native copies of a value: who made them, in which layout, and their rows by device."""

    spot: Spot
    layout: str
    stop: int
    rows: dict[int, int]
    last_start: int
    sent: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)
    """Copy number -> stop of the transfer that made it, and its rows by device."""


@dataclass(slots=True)
class _Record:
    """What one step did, so that it can be taken back."""

    spot: Spot
    start: int
    stop: int
    clocks: list[int]
    rows: int
    until: list[tuple[int, int]] = field(default_factory=list)
    started: list[tuple[_Made, int]] = field(default_factory=list)
    sent: list[tuple[Leg, int, _Made]] = field(default_factory=list)
    wrote: bool = False


class Simulator:
    """Times and memory of steps.

    Parameters
    ----------
    view
        The problem; its memory law is ``instant``.
    """

    def __init__(self, view: Indexed) -> None:
        self.view = view
        self._records: list[_Record] = []
        self._clocks = [0] * view.num_resources
        self._made: list[list[_Made]] = [[] for _ in view.values]
        # Rows of copies and workspaces: device, bytes, begin, end.
        self._device: list[int] = []
        self._bytes: list[int] = []
        self._begin: list[int] = []
        self._end: list[int] = []
        self._persists: Counter[tuple[int, int, str, int]] = Counter()
        self._results = [value for value, stays in enumerate(view.stays) if stays]
        self.simulated = 0
        """Steps simulated so far, in all calls."""

    def run(self, steps: Sequence[Step], most: float = math.inf) -> Measure | None:
        """Simulate steps, from the first that differs from the last call.

        Parameters
        ----------
        steps
            Spots of operators, producers before consumers.
        most
            Ticks beyond which nobody asks. Devices serve in order, so what a device has still to do
            comes after what it has done: most bad plans are known long before their end.

        Returns
        -------
        Measure or None
            ``None`` if some value has no way to one of its readers, or it takes more ticks.
        """
        same = 0
        for record, step in zip(self._records, steps, strict=False):
            if record.spot is not step:
                break
            same += 1
        while len(self._records) > same:
            self._take_back()
        ahead = [0] * self.view.num_devices
        for step in steps[same:]:
            for device in step.devices:
                ahead[device] += step.duration
        if any(clock + more > most for clock, more in zip(self._clocks, ahead, strict=False)):
            return None
        for step in steps[same:]:
            if not self._take(step):
                self._take_back()
                return None
            for device in step.devices:
                ahead[device] -= step.duration
                if self._clocks[device] + ahead[device] > most:
                    return None
        return Measure(max((r.stop for r in self._records), default=0), self.peaks())

    # -- one step --------------------------------------------------------------------------------

    def _take(self, spot: Spot) -> bool:
        record = _Record(spot, 0, 0, list(self._clocks), len(self._device))
        self._records.append(record)
        self.simulated += 1
        for entry in spot.persists:
            for device in spot.devices:
                self._persists[device, *entry] += 1
        reads = self._inputs(record)
        if reads is None:
            return False
        ready = max((stop for stop, _ in reads), default=0)
        for value, _, _ in spot.writes:
            if self._made[value]:
                ready = max(ready, self._made[value][-1].last_start)
        record.start = max([ready, *(self._clocks[device] for device in spot.devices)])
        record.stop = record.start + spot.duration
        for device in spot.devices:
            self._clocks[device] = record.stop
        for _, rows in reads:
            for row in rows:
                self._hold(record, row, record.stop)
        for value, _ in spot.reads:
            made = self._made[value][-1]
            record.started.append((made, made.last_start))
            made.last_start = max(made.last_start, record.start)
        self._write(record)
        return True

    def _inputs(self, record: _Record) -> list[tuple[int, list[int]]] | None:
        """When each copy that is read is complete, and its rows; sends what is not there yet."""
        spot, found = record.spot, []
        for value, wanted in spot.reads:
            made = self._made[value][-1]
            legs: tuple[Leg, ...] | None = ()
            if made.spot.site != spot.site or made.layout != wanted:
                ends = (made.spot.site, made.layout), (spot.site, wanted)
                legs = self.view.legs(value, *ends)
            if legs is None:
                return None
            if not legs or legs[0].target != spot.devices:
                rows = [made.rows[device] for device in spot.devices if device in made.rows]
                found.append((made.stop, rows))
            for leg in legs:
                if leg.copy not in made.sent:
                    self._send(record, leg, made)
                stop, copies = made.sent[leg.copy]
                found.append((stop, [row for d, row in copies.items() if d in spot.devices]))
        return found

    def _send(self, record: _Record, leg: Leg, made: _Made) -> None:
        start = max([made.stop, *(self._clocks[resource] for resource in leg.resources)])
        stop = start + leg.duration
        for resource in leg.resources:
            self._clocks[resource] = stop
        for device in leg.source:
            self._hold(record, made.rows[device], stop)
        made.sent[leg.copy] = stop, self._add(leg.target, leg.bytes, start, stop)
        record.sent.append((leg, start, made))

    def _write(self, record: _Record) -> None:
        spot, start, stop = record.spot, record.start, record.stop
        if spot.workspace:
            self._add(spot.devices, spot.workspace, start, stop)
        for value, layout, amount in spot.writes:
            rows = self._add(spot.devices, amount, start, stop)
            self._made[value].append(_Made(spot, layout, stop, rows, start))
        record.wrote = True

    def _add(self, devices: Sequence[int], amount: int, start: int, stop: int) -> dict[int, int]:
        rows = {}
        for device in devices:
            rows[device] = len(self._device)
            self._device.append(device)
            self._bytes.append(amount)
            self._begin.append(start)
            self._end.append(stop)
        return rows

    def _hold(self, record: _Record, row: int, stop: int) -> None:
        if self._end[row] < stop:
            record.until.append((row, self._end[row]))
            self._end[row] = stop

    def _take_back(self) -> None:
        record = self._records.pop()
        spot = record.spot
        for value, _, _ in spot.writes if record.wrote else ():
            self._made[value].pop()
        for made, before in reversed(record.started):
            made.last_start = before
        for leg, _, made in record.sent:
            del made.sent[leg.copy]
        for row, end in reversed(record.until):
            self._end[row] = end
        for column in (self._device, self._bytes, self._begin, self._end):
            del column[record.rows :]
        for entry in spot.persists:
            for device in spot.devices:
                self._persists[device, *entry] -= 1
        self._clocks = record.clocks

    # -- answers ---------------------------------------------------------------------------------

    def peaks(self) -> tuple[int, ...]:
        """Bytes that each device holds at most: releases come before what begins with them."""
        ends = self._ends()
        count = self.view.num_devices
        level = np.zeros(count, dtype=np.int64)
        for (device, _, _, amount), users in self._persists.items():
            if users:
                level[device] += amount
        where = np.array(self._device * 2, dtype=np.int64)
        sizes = np.array(self._bytes, dtype=np.int64)
        change = np.concatenate([sizes, -sizes])
        when = np.array(self._begin + ends, dtype=np.int64)
        order = np.lexsort((change, when, where))
        totals = np.cumsum(change[order])
        # What a device held cancels at its end, so that sums go on from zero with the next.
        peaks = np.zeros(count, dtype=np.int64)
        np.maximum.at(peaks, where[order], totals)
        return tuple(int(entry) for entry in level + peaks)

    def _ends(self) -> list[int]:
        """End of each row; never for what stays: what the last run left of a result."""
        ends = list(self._end)
        for value in self._results:
            for made in self._made[value][-1:]:
                for row in made.rows.values():
                    ends[row] = _NEVER
        return ends

    def lying(self, device: int, now: int) -> dict[int, int]:
        """Bytes of each value on a device at an instant, as its producer made it first."""
        found, ends = {}, self._ends()
        for value, made in enumerate(self._made):
            for one in made[:1]:
                rows = [one.rows, *(copies for _, copies in one.sent.values())]
                amount = sum(
                    self._bytes[row[device]]
                    for row in rows
                    if device in row and self._begin[row[device]] <= now < ends[row[device]]
                )
                if amount:
                    found[value] = amount
        return found

    def fullest(self, device: int) -> int:
        """Return the first instant at which a device holds most."""
        here = np.array(self._device, dtype=np.int64) == device
        sizes = np.array(self._bytes, dtype=np.int64)[here]
        begin = np.array(self._begin, dtype=np.int64)[here]
        end = np.array(self._ends(), dtype=np.int64)[here]
        change, when = np.concatenate([sizes, -sizes]), np.concatenate([begin, end])
        order = np.lexsort((change, when))
        return int(when[order][np.argmax(np.cumsum(change[order]))]) if len(order) else 0

    def first_runs(self) -> dict[int, tuple[int, int]]:
        """Start and stop of the first run of each operator."""
        return {r.spot.operator: (r.start, r.stop) for r in reversed(self._records)}

    def plan(self) -> Plan:
        """Return what was simulated last as a plan of the problem."""
        view = self.view
        names = view.problem.cluster.device_names
        runs = tuple(
            OperatorRun(view.names[r.spot.operator], *r.spot.placement, r.start, r.stop)
            for r in self._records
        )
        transfers = tuple(
            Transfer(
                view.values[leg.value].name,
                tuple(names[device] for device in leg.source),
                tuple(names[device] for device in leg.target),
                leg.layout,
                start,
                start + leg.duration,
            )
            for record in self._records
            for leg, start, _ in record.sent
        )
        return Plan(view.problem.name, runs, transfers)
