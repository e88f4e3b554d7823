"""Native instances and plans, read and written without milp_plan.

The formats are ``instances/formats/native.md`` and ``plan.md``, the laws ``docs/laws.md``; times of
a run are whole units, of which a tick is one unless a plan would take more than 64 bits hold.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

FULL = "full"
LONGEST = 10**12
"""Units that all tasks one after the other may take: sums of them must not overflow."""

NO_BATCH = -1

Site = tuple[int, ...]
Layouts = dict[str, str]


class UnsupportedError(Exception):
    """The instance is not for this peer."""


class Mode(NamedTuple):
    """A way to run an operator: its option, its site (number of both), and units of time."""

    option: int
    site: int
    length: int


class Delivery(NamedTuple):
    """A transfer that a consumer calls for: where to, in which layout, from where, holding what."""

    target: Site
    layout: str
    source: Site
    length: int
    held: tuple[Any, ...]


class Copy(NamedTuple):
    """What a transfer makes: value (its number), where, in which layout."""

    value: int
    target: Site
    layout: str


@dataclass(eq=False)
class Value:
    """A value that an operator makes, or a persistent one (``producer`` is ``None``).

    What is ``kept`` stays where it was made to the end: results, which nobody reads, unless marked.
    """

    name: str
    number: int
    producer: int | None
    readers: list[int]
    size: dict[str, int]
    payload: dict[str, int]
    messages: int
    reshard: dict[tuple[str, str], int]
    kept: bool


@dataclass(eq=False)
class Operator:
    """An operator and its modes."""

    name: str
    options: list[dict[str, Any]]
    kind: str
    micro_batch: int
    group: str | None
    modes: list[Mode] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    keeps: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)

    def workspace(self, mode: Mode) -> int:
        """Bytes held on each device of the site while it runs."""
        return int(self.options[mode.option].get("workspace_bytes", 0))


@dataclass(eq=False)
class Plan:
    """Mode and start of each operator, start of each transfer, in units."""

    modes: list[Mode]
    starts: list[int]
    sends: dict[Copy, int]

    @property
    def value(self) -> int:
        """Makespan in units."""
        stops = (start + mode.length for start, mode in zip(self.starts, self.modes, strict=True))
        return max(stops)


class Instance:
    """An instance; raises :class:`UnsupportedError` for what the peer does not plan."""

    def __init__(self, path: str | Path) -> None:
        data = Path(path).read_bytes()
        raw = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        asked = raw.get("objective", "makespan"), raw.get("memory_law", "instant")
        if asked != ("makespan", "instant") or raw.get("serial"):
            raise UnsupportedError(f"objective {asked[0]}, memory law {asked[1]}")
        self.name = raw["name"]
        self._read_cluster(raw["cluster"])
        self._read_operators(raw["operators"])
        self._read_values(raw.get("values", []))
        self._choose_unit()
        self._order()
        self._known: dict[Any, Any] = {}
        self._supplied: tuple[Any, Any] = (None, None)

    def _read_cluster(self, raw: dict[str, Any]) -> None:
        room = {entry["name"]: entry["memory_bytes"] for entry in raw["device_classes"]}
        self.devices = [device["name"] for device in raw["devices"]]
        self.classes = [device["device_class"] for device in raw["devices"]]
        self.rooms = [d.get("memory_bytes", room[d["device_class"]]) for d in raw["devices"]]
        place = {name: number for number, name in enumerate(self.devices)}
        self.channels = {
            (place[c["source"]], place[c["target"]]): (c["latency_ns"], c["bandwidth_bytes_per_s"])
            for c in raw.get("channels", [])
        }
        groups = [tuple(place[name] for name in group) for group in raw.get("groups", [])]
        self.sites: list[Site] = [*((number,) for number in range(len(self.devices))), *groups]
        self.communication = raw.get("communication", "channel")

    def _read_operators(self, raw: list[dict[str, Any]]) -> None:
        self.operators = [
            Operator(
                entry["name"], entry["options"], entry.get("kind", "forward"),
                NO_BATCH if entry.get("micro_batch") is None else entry["micro_batch"],
                entry.get("group"),
            )
            for entry in raw
        ]  # fmt: skip
        self.ticks: dict[tuple[int, int, int], int] = {}
        for number, operator in enumerate(self.operators):
            for option, entry in enumerate(operator.options):
                for site, devices in enumerate(self.sites):
                    ticks = [entry["duration_ns"].get(self.classes[d]) for d in devices]
                    if len(devices) == entry.get("gang", 1) and None not in ticks:
                        self.ticks[number, option, site] = max(ticks)

    def _read_values(self, raw: list[dict[str, Any]]) -> None:
        number = {operator.name: place for place, operator in enumerate(self.operators)}
        self.made: list[Value] = []
        self.persistent: list[Value] = []
        for entry in raw:
            size = _by_layout(entry["bytes"])
            kind = self.persistent if entry["producer"] is None else self.made
            value = Value(
                entry["name"], len(kind),
                None if entry["producer"] is None else number[entry["producer"]],
                [number[name] for name in entry["consumers"]],
                size, {**size, **_by_layout(entry.get("transfer_bytes", {}))},
                entry.get("messages", 1),
                {(one["from"], one["to"]): one["ns"] for one in entry.get("reshard_ns", [])},
                not entry["consumers"] if entry.get("kept") is None else entry["kept"],
            )  # fmt: skip
            kind.append(value)
            for reader in value.readers:
                operator = self.operators[reader]
                (operator.keeps if value.producer is None else operator.reads).append(value.number)
            if value.producer is not None:
                self.operators[value.producer].makes.append(value.number)

    def _choose_unit(self) -> None:
        longest: dict[int, int] = {}
        for (operator, *_), ticks in self.ticks.items():
            longest[operator] = max(longest.get(operator, 0), ticks)
        self.unit = 1
        while sum(longest.values()) // self.unit > LONGEST:
            self.unit *= 10
        for (operator, option, site), ticks in self.ticks.items():
            mode = Mode(option, site, -(-ticks // self.unit))
            self.operators[operator].modes.append(mode)

    def _order(self) -> None:
        size = len(self.operators)
        self.after: list[list[int]] = [[] for _ in range(size)]
        self.before: list[list[int]] = [[] for _ in range(size)]
        for value in self.made:
            for reader in value.readers:
                self.after[value.producer].append(reader)
                self.before[reader].append(value.producer)
        waiting = [len(names) for names in self.before]
        self.order = [number for number in range(size) if not waiting[number]]
        for number in self.order:
            for reader in self.after[number]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    self.order.append(reader)
        self.least = [min(mode.length for mode in operator.modes) for operator in self.operators]
        self.heads, self.tails = self.windows(self.least)
        self.bound = max(h + own + t for h, own, t in zip(self.heads, self.least, self.tails))  # noqa: B905

    def windows(self, least: list[int]) -> tuple[list[int], list[int]]:
        """Longest chains before and after each operator, itself left out."""
        heads, tails = [0] * len(least), [0] * len(least)
        for number in self.order:
            heads[number] = max((heads[b] + least[b] for b in self.before[number]), default=0)
        for number in reversed(self.order):
            tails[number] = max((tails[a] + least[a] for a in self.after[number]), default=0)
        return heads, tails

    @cached_property
    def flat(self) -> bool:
        """Whether every operator runs on one device in one way."""
        return all(len(o.options) == 1 and o.options[0].get("gang", 1) == 1 for o in self.operators)

    @cached_property
    def classes_of_operators(self) -> list[list[int]]:
        """Operators that share a site, in the order of their first."""
        found: dict[Any, list[int]] = {}
        for number in self.order:
            group = self.operators[number].group
            found.setdefault(number if group is None else group, []).append(number)
        return list(found.values())

    def reads(self, operator: int, mode: Mode, value: Value) -> str:
        """Layout in which an operator accepts a value."""
        table: Layouts = self.operators[operator].options[mode.option].get("reads", {})
        return table.get(value.name, FULL)

    def writes(self, operator: int, mode: Mode, value: Value) -> str:
        """Layout in which an operator leaves a value."""
        table: Layouts = self.operators[operator].options[mode.option].get("writes", {})
        return table.get(value.name, FULL)

    def needs(self, value: Value, made: Mode, reader: int, read: Mode) -> list[Delivery] | None:
        """Transfers for a reader's mode; none if it is served natively, ``None`` if never."""
        written = self.writes(value.producer, made, value)
        wanted = self.reads(reader, read, value)
        key = value.number, made.site, written, read.site, wanted
        if key not in self._known:
            source, target = self.sites[made.site], self.sites[read.site]
            self._known[key] = self._deliveries(value, source, written, target, wanted)
        return self._known[key]

    def _deliveries(
        self, value: Value, source: Site, written: str, target: Site, wanted: str
    ) -> list[Delivery] | None:
        same = written == wanted
        if same and (source == target or (wanted == FULL and set(target) <= set(source))):
            return []
        if same and wanted == FULL:
            return self._sends(value, source, target)
        change = 0 if same else value.reshard.get((written, wanted))
        if change is None or (same and len(source) != len(target)):
            return None
        if same:
            legs = [
                self._travel(value, wanted, a, b)
                for a, b in zip(source, target, strict=True)
                if a != b
            ]
        else:
            legs = [
                min((t for a in source if (t := self._travel(value, wanted, a, b)) is not None),
                    default=None)
                for b in target
                if b not in source
            ]  # fmt: skip
        if None in legs:
            return None
        length = -(-(change + max(legs, default=0)) // self.unit)
        return [Delivery(target, wanted, source, length, self._held(source, target))]

    def _sends(self, value: Value, source: Site, target: Site) -> list[Delivery] | None:
        found = []
        for device in target:
            if device in source:
                continue
            legs = [(self._travel(value, FULL, a, device), a) for a in source]
            ways = [(ticks, a) for ticks, a in legs if ticks is not None]
            if not ways:
                return None
            ticks, best = min(ways, key=lambda way: way[0])
            length, held = -(-ticks // self.unit), self._held((best,), (device,))
            found.append(Delivery((device,), FULL, (best,), length, held))
        return found

    def _travel(self, value: Value, layout: str, a: int, b: int) -> int | None:
        channel = self.channels.get((a, b))
        if channel is None:
            return None
        latency, speed = channel
        wire = -(-value.payload[layout] * 10**9 // speed)
        return int(value.messages * latency + wire + value.messages - 1)

    def slowest(self, value: Value) -> int:
        """Units that a transfer of a value takes at most, a change of layout included."""
        ticks = [
            self._travel(value, layout, *ends) for layout in value.size for ends in self.channels
        ]
        change = max(value.reshard.values(), default=0)
        return -(-(max(ticks, default=0) + change) // self.unit)

    def _held(self, source: Site, target: Site) -> tuple[Any, ...]:
        if self.communication == "delay":
            return ()
        if self.communication == "channel":
            return tuple((a, b) for a in source for b in target if a != b)
        sends = [("send", a) for a in source if any(b != a for b in target)]
        return (*sends, *(("receive", b) for b in target if any(a != b for a in source)))

    def supplies(self, modes: list[Mode]) -> dict[Copy, tuple[Delivery, list[int]]] | None:
        """Every transfer that the modes of all operators call for, and who reads it."""
        key = tuple(modes)
        if self._supplied[0] == key:
            return self._supplied[1]
        found: dict[Copy, tuple[Delivery, list[int]]] = {}
        for value in self.made:
            for reader in value.readers:
                needed = self.needs(value, modes[value.producer], reader, modes[reader])
                if needed is None:
                    return None
                for one in needed:
                    copy = Copy(value.number, one.target, one.layout)
                    found.setdefault(copy, (one, []))[1].append(reader)
        self._supplied = key, found  # of the last modes: they are asked about several times
        return found

    @cached_property
    def may_bind(self) -> bool:
        """Whether some plan could be too large for a device."""
        most = sum(sum(value.size.values()) for value in self.persistent)
        most += sum(sum(value.size.values()) * (1 if self.flat else 2) for value in self.made)
        most += max(o.workspace(m) for o in self.operators for m in o.modes)
        return any(room is not None and room < most for room in self.rooms)

    def plan_file(self, plan: Plan) -> dict[str, Any]:
        """Return a plan as its format has it, in ticks."""
        runs, sends = [], []
        for number, (mode, start) in enumerate(zip(plan.modes, plan.starts, strict=True)):
            operator, begin = self.operators[number], start * self.unit
            runs.append({
                "operator": operator.name,
                "option": operator.options[mode.option]["name"],
                "devices": [self.devices[d] for d in self.sites[mode.site]],
                "start_ns": begin,
                "stop_ns": begin + self.ticks[number, mode.option, mode.site],
            })  # fmt: skip
        for copy, (one, _) in (self.supplies(plan.modes) or {}).items():
            value, begin = self.made[copy.value], plan.sends[copy] * self.unit
            sends.append({
                "value": value.name,
                "source": [self.devices[d] for d in one.source],
                "target": [self.devices[d] for d in one.target],
                "layout": one.layout,
                "start_ns": begin,
                "stop_ns": begin + self._exactly(value, plan.modes[value.producer], one),
            })  # fmt: skip
        head = {"format": "milp-plan-plan", "version": 1, "problem": self.name}
        told = {"objective": "makespan", "value": max(run["stop_ns"] for run in runs)}
        return {**head, "operators": runs, "transfers": sends, **told, "planner": "CP-SAT peer"}

    def _exactly(self, value: Value, made: Mode, one: Delivery) -> int:
        if self.unit == 1:
            return one.length
        unit, self.unit = self.unit, 1
        try:
            written = self.writes(value.producer, made, value)
            site = self.sites[made.site]
            found = self._deliveries(value, site, written, one.target, one.layout) or []
        finally:
            self.unit = unit
        return next(other.length for other in found if other.target == one.target)


def _by_layout(amount: int | dict[str, int]) -> dict[str, int]:
    return {FULL: amount} if isinstance(amount, int) else amount
