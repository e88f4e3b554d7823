"""Plans to start from: list schedules over modes, and stages of colocation classes.

Stages follow the common ways of pipelines: classes in order of depth, those of the backward pass
as the mirror of the forward pass, cut into parts of equal work or equal bytes, dealt to some of the
devices once or several times around; and priorities that know passes and micro-batches.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dispatch import Priorities, dispatch
from reader import NO_BATCH, Copy, Instance, Mode, Plan

FORWARD = "forward"
FIRST = ("backward first", "chain, batch 0.1")
"""Priorities that are tried on every placement, where they mean something."""

ONCE = "once"
"""End of the family of stages that are dealt once around."""

MOST_AGAIN = 12
"""Placements, the best ones, on which the other priorities are tried as well."""

Over = Callable[[], bool]
Sent = tuple[Copy, int, int, tuple[object, ...]]
"""A transfer, when it starts and stops, what it holds."""


class Start(NamedTuple):
    """A plan, how it came about, of which kind it is, and by which priorities and window."""

    plan: Plan
    name: str
    family: str
    priorities: Priorities
    window: int | None


def priorities_of(instance: Instance) -> dict[str, list[float]]:
    """Return the priorities to try by name."""
    operators = instance.operators
    chain = [float(tail + own) for tail, own in zip(instance.tails, instance.least, strict=True)]
    longest = max(chain)
    batches = [max(0, operator.micro_batch) for operator in operators]
    found = {"chain": chain}
    if len(set(batches)) > 1:
        for part in (0.05, 0.1, 0.2):
            late = [part * longest * batch for batch in batches]
            found[f"chain, batch {part:g}"] = [c - o for c, o in zip(chain, late, strict=True)]
    kinds = [operator.kind for operator in operators]
    if any(kind != FORWARD for kind in kinds):
        ranks = {
            "backward first": {"backward-weight": 0.0, "update": -1.0, FORWARD: 1.0},
            "free first": {"backward-weight": 3.0, "update": 4.0, FORWARD: 1.0},
        }
        for name, rank in ranks.items():
            found[name] = [
                100 * longest * rank.get(kind, 2.0) - 3 * longest * batch + own
                for kind, batch, own in zip(kinds, batches, chain, strict=True)
            ]
    return found


# -- list schedules over all modes ----------------------------------------------------------------


def upward_ranks(instance: Instance) -> list[float]:
    """Mean lengths and mean transfers to the end (HEFT, Topcuoglu et al. 2002)."""
    ranks = [0.0] * len(instance.operators)
    pairs = list(instance.channels)[:50]
    share = 1 - 1 / len(instance.devices)
    travel = {}
    for value in instance.made:
        layout = next(iter(value.size))
        ticks = [instance._travel(value, layout, a, b) or 0 for a, b in pairs]
        mean = sum(ticks) / len(ticks) if ticks else 0.0
        travel[value.number] = share * mean / instance.unit
    for number in reversed(instance.order):
        operator = instance.operators[number]
        own = sum(mode.length for mode in operator.modes) / len(operator.modes)
        values = [instance.made[place] for place in operator.makes]
        after = [travel[v.number] + ranks[r] for v in values for r in v.readers]
        ranks[number] = own + max(after, default=0.0)
    return ranks


class _Lists:
    """A serial list schedule under construction."""

    def __init__(self, instance: Instance, load_weight: float) -> None:
        self.instance, self.load_weight = instance, load_weight
        self.modes: list[Mode | None] = [None] * len(instance.operators)
        self.stops = [0] * len(instance.operators)
        self.free = [0] * len(instance.devices)
        self.load = [0.0] * len(instance.devices)
        self.resources: dict[object, int] = {}
        self.arrivals: dict[Copy, int] = {}
        self.sends: dict[Copy, int] = {}
        self.allowed: dict[int, set[int]] = {}
        self.work: dict[int, int] = {}
        for members in instance.classes_of_operators:
            sites = [{mode.site for mode in instance.operators[o].modes} for o in members]
            common = set.intersection(*sites)
            for member in members:
                self.allowed[member] = common
                self.work[member] = sum(instance.least[o] for o in members)
        self.members = {o: ms for ms in instance.classes_of_operators for o in ms}

    def place(self, number: int) -> bool:
        """Run an operator in the mode that ends first, loads considered."""
        best = None
        for mode in self.instance.operators[number].modes:
            if mode.site not in self.allowed[number]:
                continue
            tried = self._try(number, mode)
            if tried is None:
                continue
            start, sends = tried
            site = self.instance.sites[mode.site]
            cost = start + mode.length + self.load_weight * max(self.load[d] for d in site)
            if best is None or (cost, len(site)) < best[0]:
                best = (cost, len(site)), mode, start, sends
        if best is None:
            return False
        self._take(number, *best[1:])
        return True

    def _try(
        self, number: int, mode: Mode
    ) -> tuple[int, list[tuple[Copy, int, int, tuple]]] | None:
        instance = self.instance
        start = max(self.free[device] for device in instance.sites[mode.site])
        taken: dict[object, int] = {}
        sends = []
        for place in instance.operators[number].reads:
            value = instance.made[place]
            made = self.modes[value.producer]
            assert made is not None
            needed = instance.needs(value, made, number, mode)
            if needed is None:
                return None
            stop = self.stops[value.producer]
            start = max(start, stop)
            for one in needed:
                copy = Copy(place, one.target, one.layout)
                if copy not in self.arrivals:
                    holds = (taken.get(h, self.resources.get(h, 0)) for h in one.held)
                    begin = max(stop, *holds, stop)
                    taken.update(dict.fromkeys(one.held, begin + one.length))
                    sends.append((copy, begin, begin + one.length, one.held))
                    start = max(start, begin + one.length)
                else:
                    start = max(start, self.arrivals[copy])
        return start, sends

    def _take(self, number: int, mode: Mode, start: int, sends: list[Sent]) -> None:
        site = self.instance.sites[mode.site]
        if len(self.allowed[number]) > 1 or len(self.members[number]) == 1:
            for device in site:
                self.load[device] += self.work[number]
        for member in self.members[number]:
            self.allowed[member] = {mode.site}
        self.modes[number] = mode
        self.stops[number] = start + mode.length
        for device in site:
            self.free[device] = start + mode.length
        for copy, begin, end, held in sends:
            self.sends[copy], self.arrivals[copy] = begin, end
            self.resources.update(dict.fromkeys(held, end))


def list_schedule(
    instance: Instance, priorities: Priorities, load_weight: float = 0.0
) -> list[Mode] | None:
    """Return the modes of a list schedule: the most urgent operator that is ready comes next."""
    from heapq import heapify, heappop, heappush

    lists = _Lists(instance, load_weight)
    waiting = [len(before) for before in instance.before]
    ready = [(-priorities[o], o) for o, missing in enumerate(waiting) if not missing]
    heapify(ready)
    while ready:
        _, number = heappop(ready)
        if not lists.place(number):
            return None
        for after in instance.after[number]:
            waiting[after] -= 1
            if not waiting[after]:
                heappush(ready, (-priorities[after], after))
    return [mode for mode in lists.modes if mode is not None]


# -- stages ---------------------------------------------------------------------------------------


class Stages:
    """Placements of classes by stages, on instances whose operators can run on single devices."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.members = instance.classes_of_operators
        operators = instance.operators
        self.work = [sum(instance.least[o] for o in ms) for ms in self.members]
        own = {o: place for place, ms in enumerate(self.members) for o in ms}
        self.bytes = [0] * len(self.members)
        for value in instance.persistent:
            for place in {own[reader] for reader in value.readers}:
                self.bytes[place] += max(value.size.values())
        self.own = own
        heads = [min(instance.heads[o] for o in ms) for ms in self.members]
        self.orders = {"depth": sorted(range(len(heads)), key=heads.__getitem__)}
        forward = [[o for o in ms if operators[o].kind == FORWARD] for ms in self.members]
        if not all(forward):
            deepest = max((instance.heads[o] for ms in forward for o in ms), default=1) or 1
            rest = [o for ms, fs in zip(self.members, forward, strict=True) if not fs for o in ms]
            longest = max((instance.tails[o] for o in rest), default=1) or 1
            keys = [
                min(instance.heads[o] for o in fs) / deepest
                if fs
                else max(instance.tails[o] for o in ms) / longest
                for ms, fs in zip(self.members, forward, strict=True)
            ]
            self.orders["mirror"] = sorted(range(len(keys)), key=keys.__getitem__)
        self.mirrored = [not fs for fs in forward]

    def speeds(self) -> list[float]:
        """Work per unit of time of each device, the fastest 1."""
        totals = []
        for site in range(len(self.instance.devices)):
            lengths = [
                min((m.length for m in operator.modes if m.site == site), default=4 * least)
                for operator, least in zip(
                    self.instance.operators, self.instance.least, strict=True
                )
            ]
            totals.append(max(1, sum(lengths)))
        return [min(totals) / total for total in totals]

    def modes(self, devices: list[int]) -> list[Mode] | None:
        """Return the shortest mode of each operator on the device of its class."""
        found: list[Mode | None] = [None] * len(self.instance.operators)
        for place, members in enumerate(self.members):
            for number in members:
                modes = self.instance.operators[number].modes
                here = [mode for mode in modes if mode.site == devices[place]]
                found[number] = min(here, key=lambda mode: mode.length, default=None)
        return None if None in found else found  # type: ignore[return-value]

    def deal(self, order: list[int], sequence: list[int], part: float, *, even: bool) -> list[int]:
        """Cut classes in an order into stages, one for each entry of a sequence of devices.

        ``part`` of the weight of a class is its bytes, the rest its work; stages are even, or as
        large as their devices are fast.
        """
        speeds = [1.0] * len(self.instance.devices) if even else self.speeds()
        work, size = sum(self.work) or 1, sum(self.bytes) or 1
        weights = [
            (1 - part) * w / work + part * b / size
            for w, b in zip(self.work, self.bytes, strict=True)
        ]
        total = sum(weights) or 1.0
        shares = [speeds[device] for device in sequence]
        ends, reached = [], 0.0
        for share in shares:
            reached += share / sum(shares) * total
            ends.append(reached)
        devices, stage, reached = [0] * len(weights), 0, 0.0
        for place in order:
            while stage < len(ends) - 1 and reached + weights[place] / 2 > ends[stage]:
                stage += 1
            devices[place] = sequence[stage]
            reached += weights[place]
        return devices

    def sequences(self) -> Iterator[tuple[str, list[int]]]:
        """Devices of the stages: some of them, fast ones first, once or several times around."""
        speeds = self.speeds()
        ranked = sorted(range(len(speeds)), key=lambda device: (-speeds[device], device))
        count = len(ranked)
        counts = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, 32, count // 2, count})
        several = [ranked[:k] for k in reversed(counts) if 1 <= k <= count]
        yield from ((f"{len(once)}", once) for once in several)
        for once in several[:-1]:
            yield f"{len(once)} V", [*once, *reversed(once)]
            yield f"{len(once)} twice", once * 2

    def placements(self) -> Iterator[tuple[str, str, list[int]]]:
        """Name, kind and devices of every placement, those that are best most often first."""
        uneven = len(set(self.speeds())) > 1
        bytes_too = self.instance.may_bind and any(self.bytes)
        for part in (0.0, 0.5, 0.25, 0.75, 1.0) if bytes_too else (0.0, 0.5):
            for order_name, order in reversed(self.orders.items()):
                for even in (True, False) if uneven else (True,):
                    for name, sequence in self.sequences():
                        words = f"{name} stages, {order_name}, bytes {part:g}"
                        devices = self.deal(order, sequence, part, even=even)
                        family = f"{order_name} {name.partition(' ')[2] or ONCE}"
                        yield words + ("" if even else ", by speed"), family, devices


class Constructions:
    """Constructions tried one after the other while there is time.

    Parameters
    ----------
    instance
        What is planned.
    over
        Whether the time is over; until there is a plan it does not count.
    tell
        Called with each plan that is the best of its kind so far.
    """

    def __init__(self, instance: Instance, over: Over, tell: Callable[[Start], None]) -> None:
        self.instance, self.over, self.tell = instance, over, tell
        self.priorities = priorities_of(instance)
        self.best_of: dict[str, int] = {}
        self.tried: list[tuple[int, int, list[Mode], str, str]] = []
        batches = {operator.micro_batch for operator in instance.operators} - {NO_BATCH}
        self.throttled = instance.may_bind and len(batches) > 1

    @property
    def ended(self) -> bool:
        """Whether nothing more is tried."""
        return bool(self.best_of) and self.over()

    def offer(self, modes: list[Mode] | None, name: str, family: str, words: list[str]) -> None:
        """Schedule modes by some priorities; what does not fit, with less at a time as well."""
        for word in words if modes is not None else ():
            windows: list[int | None] = [None]
            for window in windows:
                if self.ended:
                    return
                best = min(self.best_of.values(), default=None)
                cutoff = None if best is None else 2 * best  # what is near may become better
                plan = dispatch(self.instance, modes, self.priorities[word], cutoff, window)
                if plan is not None:
                    self._keep(plan, name, family, word, window)
                elif window is None and self.throttled:
                    windows += [len(self.instance.devices), 2, 1]

    def _keep(self, plan: Plan, name: str, family: str, word: str, window: int | None) -> None:
        self.tried.append((plan.value, len(self.tried), plan.modes, name, family))
        if family not in self.best_of or plan.value < self.best_of[family]:
            self.best_of[family] = plan.value
            self.tell(Start(plan, f"{name}, {word}", family, self.priorities[word], window))

    def lists(self) -> None:
        """List schedules over all modes."""
        ranks = {"HEFT": upward_ranks(self.instance), "chain": self.priorities["chain"]}
        for weight in (0.0, 0.5, 0.2):
            for name, rank in ranks.items():
                if not self.ended:
                    modes = list_schedule(self.instance, rank, weight)
                    self.offer(modes, f"{name}, load {weight:g}", "list", list(self.priorities))

    def stages(self) -> None:
        """All placements by some priorities, then the best of them by the others."""
        first = [word for word in FIRST if word in self.priorities] or list(self.priorities)
        stages = Stages(self.instance)
        for name, family, devices in stages.placements():
            if self.ended:
                return
            self.offer(stages.modes(devices), name, family, first)
        rest = [word for word in self.priorities if word not in first]
        for _, _, modes, name, family in sorted(self.tried)[:MOST_AGAIN]:
            self.offer(modes, name, family, rest)


class Climb:
    """Classes moved to devices of their neighbours while it helps; for plans on single devices."""

    def __init__(self, instance: Instance, start: Start, seed: int) -> None:
        self.instance, self.best = instance, start
        self.rng = random.Random(seed)
        self.stages = Stages(instance)
        self.devices = [start.plan.modes[members[0]].site for members in self.stages.members]
        near: list[set[int]] = [set() for _ in self.devices]
        own = self.stages.own
        for value in instance.made:
            for reader in value.readers:
                a, b = own[value.producer], own[reader]
                near[a] |= {b} - {a}
                near[b] |= {a} - {b}
        self.neighbours = [sorted(entry) for entry in near]

    def run(self, over: Over, tell: Callable[[Start], None], patience_s: float) -> None:
        """Go on until the time is over or for so long in vain, telling each better plan."""
        since = time.monotonic()
        if any(len(self.instance.sites[mode.site]) > 1 for mode in self.best.plan.modes):
            return
        while not over() and time.monotonic() - since < patience_s:
            tried = self._moved()
            modes = None if tried == self.devices else self.stages.modes(tried)
            if modes is None:
                continue
            best = self.best
            most = best.plan.value + 1
            plan = dispatch(self.instance, modes, best.priorities, most, best.window)
            if plan is None:
                continue
            self.devices = tried
            if plan.value < best.plan.value:
                self.best, since = best._replace(plan=plan), time.monotonic()
                tell(self.best)

    def _moved(self) -> list[int]:
        """A class on the device of a neighbour, and some that hang on it with it."""
        rng, tried = self.rng, list(self.devices)
        place = rng.randrange(len(tried))
        around = self.neighbours[place]
        if not around:
            tried[place] = rng.randrange(len(self.instance.devices))
            return tried
        tried[place] = self.devices[rng.choice(around)]
        for _ in range(rng.choice((0, 0, 1, 3, 8))):
            others = [p for p in self.neighbours[place] if self.devices[p] != tried[place]]
            if not others:
                break
            other = rng.choice(others)
            tried[other] = tried[place]
            place = other
        return tried
