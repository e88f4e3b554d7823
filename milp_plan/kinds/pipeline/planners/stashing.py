"""Search for schedules of pipelines whose activations are recomputed or wait on a host.

A state is a word for each device and a treatment for each stash (:mod:`.stash_loops` times it
exactly). The search begins from plans of the same pipeline in which everything stays, including
plans that exceed the memory: what does not fit is then recomputed, or leaves, those first whose
readers come last.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from milp_plan.core import Plan
from milp_plan.core.budget import Budget

from ..stash import StashShop
from .stash_loops import (
    AGAIN,
    LEAVE,
    STAY,
    Integers,
    StashBuffers,
    StashTables,
    anneal,
    buffers_of,
    change,
    decode,
    makespan_of,
)

ENDLESS = 2**62
"""Memory of a device without a limit."""

MOVES = 40_000
"""Moves of one annealing run."""

AHEAD = 2
"""Initial number of events between a journey back and its reader."""

COOLER = 1 / 3
"""Factor on the first temperature from one annealing run to the next, two times in three."""

HEAT = (0.6, 0.02)
"""First and last temperature, as multiples of the mean length of a step."""


@dataclass
class StashWords:
    """A word for each device, and the treatment of each stash."""

    words: Integers
    length: Integers
    mode: Integers

    def copy(self) -> StashWords:
        """Return a copy that shares no array."""
        return StashWords(self.words.copy(), self.length.copy(), self.mode.copy())


class Stashing:
    """The search over one pipeline.

    Parameters
    ----------
    shop
        The pipeline to schedule.
    seed
        Seed of the search; the same seed, starts and rounds give the same result.

    Attributes
    ----------
    pool
        Makespan and best words, by origin.
    """

    def __init__(self, shop: StashShop, seed: int) -> None:
        self.shop, self.seed = shop, seed
        self.names = list(shop.steps)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.devices = {name: d for d, name in enumerate(shop.on_device)}
        self.tables = self._tables()
        self.heat = float(np.mean(self.tables.ticks)) if self.names else 1.0
        self.pool: dict[str, tuple[int, StashWords]] = {}
        self.rounds = 0

    def _tables(self) -> StashTables:
        shop, number = self.shop, self.number
        steps = len(self.names)
        before: list[list[tuple[int, int]]] = [[] for _ in self.names]
        for a, b, lag in shop.arcs:
            before[number[b]].append((number[a], lag))
        alloc, free = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
        for value in shop.values:
            alloc[number[value.maker]] += value.bytes
            free[number[value.last]] += value.bytes
        stash = np.full(steps, -1, np.int64)
        first_of: list[list[int]] = [[] for _ in self.names]
        for s, entry in enumerate(shop.stashes):
            stash[number[entry.maker]] = s
            first_of[number[entry.first]].append(s)
        parts = [entry.values for entry in shop.stashes]
        flat = [value for values in parts for value in values]
        kinds: dict[object, int] = {}
        kind = [
            kinds.setdefault(shop.problem.graph.operator(n).name.partition("@")[0], len(kinds))
            for n in self.names
        ]
        kind += [len(kinds) + number[entry.maker] for entry in shop.stashes]
        room = [shop.limits.get(device, ENDLESS) for device in self.devices]
        return StashTables(
            _row(shop.steps[n].ticks for n in self.names),
            _row(self.devices[shop.steps[n].device] for n in self.names),
            _ends(before), _row(a for row in before for a, _ in row),
            _row(lag for row in before for _, lag in row),
            alloc, free, stash, _ends(first_of), _row(s for row in first_of for s in row),
            _row(number[entry.maker] for entry in shop.stashes),
            _row(number[entry.first] for entry in shop.stashes),
            _row(entry.bytes for entry in shop.stashes),
            _row(entry.again for entry in shop.stashes),
            _row(entry.host is not None for entry in shop.stashes),
            _ends(parts), _row(value.bytes for value in flat),
            _row(value.out_ticks or 0 for value in flat),
            _row(value.back_ticks or 0 for value in flat),
            _row(room), _row(kind),
        )  # fmt: skip

    # -- starts ------------------------------------------------------------------------------

    def words_of(self, plan: Plan) -> StashWords:
        """Return the words of a plan of this pipeline, including journeys and recomputations."""
        tables, steps = self.tables, len(self.names)
        rows: list[list[tuple[int, int, int]]] = [[] for _ in self.devices]
        mode = np.zeros(len(self.shop.stashes), np.int64)
        seen: set[str] = set()
        for run in sorted(plan.runs, key=lambda r: r.start_ticks or 0):
            step = self.number[run.operator]
            event, stash = step, tables.stash[step]
            if run.operator in seen:
                event, mode[stash] = steps + int(stash), AGAIN
            seen.add(run.operator)
            rows[tables.device[step]].append((run.start_ticks or 0, 1, event))
        hosts = self.shop.problem.cluster.hosts
        carried = {k.value: s for s, entry in enumerate(self.shop.stashes) for k in entry.values}
        back: dict[int, int] = {}
        for trip in plan.transfers:
            if trip.source[0] in hosts and trip.value in carried:
                s = carried[trip.value]
                back[s] = min(trip.start_ticks or 0, back.get(s, trip.start_ticks or 0))
        for s, start in back.items():
            mode[s] = LEAVE
            rows[tables.device[tables.maker[s]]].append((start, 0, steps + s))
        most = max(len(row) for row in rows) + len(self.shop.stashes)
        words = np.zeros((len(rows), most), np.int64)
        for d, row in enumerate(rows):
            words[d, : len(row)] = [event for _, _, event in sorted(row)]
        return StashWords(words, _row(len(row) for row in rows), mode)

    def fitted(self, words: StashWords, way: int) -> StashWords:
        """Return the words with enough recomputed, or on hosts, for every device to have room.

        Where something does not fit, the stash that is read last goes. Journeys back come
        before the step ahead of their reader.
        """
        now, tables = words.copy(), self.tables
        for d in range(len(self.devices)):
            while (full := self._excess(now, d)) is not None:
                victim = self._victim(now, d, full, way)
                if victim is not None:
                    ahead = AHEAD if way == LEAVE else 0
                    change(tables, now.words, now.length, now.mode, victim, way, ahead)
                elif not self._relieve(now, d, full):
                    break
        return now

    def _relieve(self, now: StashWords, d: int, at: int) -> bool:
        """Move the next step that releases something, and waits for nothing here, to the front."""
        tables, steps = self.tables, len(self.names)
        word = now.words[d, : now.length[d]].tolist()
        later = {e for e in word[at:] if e < steps}
        for place in range(at + 1, len(word)):
            event = word[place]
            if event >= steps or tables.alloc[event] >= tables.free[event]:
                continue
            row = slice(tables.before_at[event], tables.before_at[event + 1])
            if later.isdisjoint(tables.before[row].tolist()):
                word.insert(at, word.pop(place))
                now.words[d, : len(word)] = word
                return True
        return False

    def _excess(self, now: StashWords, d: int) -> int | None:
        """Return the position of the first event that does not fit, if journeys took no time."""
        tables, steps, used = self.tables, len(self.names), 0
        for at in range(now.length[d]):
            event = int(now.words[d, at])
            s = int(tables.stash[event]) if event < steps else event - steps
            maker = event if event < steps else int(tables.maker[s])
            used += int(tables.alloc[maker])
            if used > tables.room[d]:
                return at
            if event < steps:
                used -= int(tables.free[event])
                used -= int(tables.size[s]) if s >= 0 and now.mode[s] != STAY else 0
            else:
                used -= int(tables.alloc[maker] - tables.size[s])
        return None

    def _victim(self, now: StashWords, d: int, at: int, way: int) -> int | None:
        """Return the stash that stays across a position, may go ``way``, and is read last."""
        word = now.words[d, : now.length[d]].tolist()
        best, choice = at, None
        tables = self.tables
        for s in {int(tables.stash[e]) for e in word[:at] if e < len(self.names)} - {-1}:
            allowed = tables.may_again[s] if way == AGAIN else tables.may_leave[s]
            read = word.index(int(tables.first[s]))
            if now.mode[s] == STAY and allowed and read > best:
                best, choice = read, s
        return choice

    def add(self, plan: Plan, origin: str) -> None:
        """Add a plan as a start; it may exceed the memory."""
        words = self.words_of(plan)
        buffers = buffers_of(self.tables, words.words)
        if self._value(words, buffers) is not None:
            self._keep(words, buffers, origin)
            return
        for way, name in ((AGAIN, "again"), (LEAVE, "away")):
            fitted = self.fitted(words, way)
            if self._value(fitted, buffers) is not None:
                self._keep(fitted, buffers, f"{origin}, {name}")

    def _value(self, words: StashWords, buffers: StashBuffers) -> int | None:
        cost = decode(self.tables, words.words, words.length, words.mode, buffers)
        return None if cost == np.inf else int(makespan_of(self.tables, buffers))

    def _keep(self, words: StashWords, buffers: StashBuffers, origin: str) -> None:
        value = int(makespan_of(self.tables, buffers))
        if origin not in self.pool or value < self.pool[origin][0]:
            self.pool[origin] = value, words

    # -- search ------------------------------------------------------------------------------

    @property
    def best(self) -> Plan | None:
        """Return the best plan so far."""
        if not self.pool:
            return None
        _, words = min(self.pool.values(), key=lambda entry: entry[0])
        return self.plan(words)

    def plan(self, words: StashWords) -> Plan:
        """Return the plan of words that fit."""
        tables, steps = self.tables, len(self.names)
        buffers = buffers_of(tables, words.words)
        if self._value(words, buffers) is None:
            raise ValueError("the words wait for each other in a circle")
        starts = {name: int(buffers.start[i]) for i, name in enumerate(self.names)}
        again: dict[str, int] = {}
        trips: dict[str, tuple[int, int]] = {}
        for s, stash in enumerate(self.shop.stashes):
            back, out = int(buffers.start[steps + s]), int(buffers.out_start[s])
            if words.mode[s] == AGAIN:
                again[stash.maker] = back
            elif words.mode[s] == LEAVE:
                for value in stash.values:
                    trips[value.value] = out, back
                    out, back = out + (value.out_ticks or 0), back + (value.back_ticks or 0)
        return self.shop.plan(starts, again, trips, "stashing")

    def run(
        self,
        budget: Budget,
        on_better: Callable[[Plan, int], object],
        *,
        lower: int = 0,
        rounds: int | None = None,
        threads: int = 1,
    ) -> None:
        """Anneal the words of the pool in turns, the best most often, until the bound is met.

        Parameters
        ----------
        budget
            When to end, in addition to ``rounds``.
        on_better
            Called with the best plan and its makespan.
        lower
            A proved bound.
        rounds, threads
            Largest number of annealing runs per thread, and number of threads.
        """
        best = min((value for value, _ in self.pool.values()), default=0)
        if self.best is not None:
            on_better(self.best, best)
        done = 0
        with ThreadPoolExecutor(threads) as workers:
            while self.pool and best > lower and done != rounds and not budget.over:
                picked = [self._pick() for _ in range(threads)]
                for origin, value, words in workers.map(self._anneal, picked):
                    if value <= self.pool[origin][0]:
                        self.pool[origin] = value, words
                    if value < best:
                        best = value
                        on_better(self.plan(words), best)
                done += 1

    def _pick(self) -> tuple[str, StashWords, float, int]:
        """Return origin and words of the next annealing run, its heat and its seed."""
        ranked = sorted(self.pool, key=lambda name: self.pool[name][0])
        turn = self.rounds
        self.rounds += 1
        origin = ranked[(turn // 2) % len(ranked) if turn % 2 else 0]
        return origin, self.pool[origin][1].copy(), COOLER ** (turn % 3), self.seed + 7919 * turn

    def _anneal(self, picked: tuple[str, StashWords, float, int]) -> tuple[str, int, StashWords]:
        origin, now, share, seed = picked
        buffers = buffers_of(self.tables, now.words)
        heat = (share * HEAT[0] * self.heat, HEAT[1] * self.heat)
        makespan = anneal(self.tables, now.words, now.length, now.mode, MOVES, heat, seed, buffers)
        return origin, int(makespan), now


def _row(numbers: object) -> Integers:
    return np.array(list(numbers), np.int64)  # type: ignore[call-overload]


def _ends(rows: object) -> Integers:
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)  # type: ignore[attr-defined]
