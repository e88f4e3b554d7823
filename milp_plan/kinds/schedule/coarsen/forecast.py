"""Forecast of a cut's value: a list schedule of its clusters, and whether it fits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import inf

from milp_plan.core import PlanningProblem, Value


def packs(needs: Iterable[tuple[int, int]], rooms: Iterable[int | None]) -> bool:
    """Return whether first fit, largest first, places everything.

    A need is what stays on a device, and what comes and goes: of that the largest alone counts.
    """
    left = [inf if room is None else room for room in rooms]
    peaks = [0] * len(left)
    for stays, passes in sorted(needs, reverse=True):
        for i, peak in enumerate(peaks):
            if left[i] - stays >= max(peak, passes):
                left[i], peaks[i] = left[i] - stays, max(peak, passes)
                break
        else:
            return False
    return True


class Forecast:
    """Schedules of clusters on devices and channels that are all as fast as the fastest.

    Parameters
    ----------
    problem
        Whose operators are clustered.
    ticks
        Operator -> how long it takes at best.
    """

    def __init__(self, problem: PlanningProblem, ticks: Mapping[str, int]) -> None:
        self.graph, self.ticks = problem.graph, ticks
        cluster = problem.without_memory_saving.cluster
        self.devices = len(cluster.devices)
        self.channels = dict.fromkeys(replace(c, source="", target="") for c in cluster.channels)
        self._travel: dict[str, int] = {}

    def value(self, clusters: Sequence[Sequence[str]], parts: Sequence[Hashable]) -> float:
        """Return the makespan of the better of two schedules, by longest remaining path first.

        Clusters of one part run on one device. Parts lie on devices in turn, or in runs of
        neighbours of like work.
        """
        owner = {name: i for i, cluster in enumerate(clusters) for name in cluster}
        work = [sum(self.ticks[name] for name in cluster) for cluster in clusters]
        edges = self._edges(owner)
        numbers = {part: n for n, part in enumerate(dict.fromkeys(parts))}
        lines = [numbers[part] for part in parts]
        load = [0] * len(numbers)
        for line, ticks in zip(lines, work, strict=True):
            load[line] += ticks
        turns = [n % self.devices for n in range(len(load))]
        whole, before, runs = max(1, sum(load)), 0, []
        for ticks in load:
            runs.append(min(self.devices - 1, self.devices * (2 * before + ticks) // (2 * whole)))
            before += ticks
        return min(
            _scheduled(work, edges, [table[line] for line in lines]) for table in (turns, runs)
        )

    def passing_bytes(self, clusters: Sequence[Sequence[str]]) -> list[int]:
        """Return the bytes of each cluster on its device while it runs, without persistent values.

        Its inputs and results lie there all the time; what is made and read inside while needed.
        """
        place = {n: (i, k) for i, names in enumerate(clusters) for k, n in enumerate(names)}
        result = [0] * len(clusters)
        change = [[0] * (len(names) + 1) for names in clusters]
        for operator in self.graph.operators:
            i, k = place[operator.name]
            size = max(option.workspace_bytes for option in operator.options)
            change[i][k] += size
            change[i][k + 1] -= size
        for value in self.graph.values:
            if value.producer is None:
                continue
            size = max(value.bytes.values())
            own, first = place[value.producer]
            readers = [place[name] for name in value.consumers]
            others = {i for i, _ in readers} - {own}
            for i in others:
                result[i] += size
            if others or not readers:
                result[own] += size
            else:
                change[own][first] += size
                change[own][1 + max(k for _, k in readers)] -= size
        return [n + max(accumulate(row)) for n, row in zip(result, change, strict=True)]

    def _edges(self, owner: Mapping[str, int]) -> dict[tuple[int, int], float]:
        result: dict[tuple[int, int], float] = {}
        for value in self.graph.values:
            if value.producer is None:
                continue
            first = owner[value.producer]
            for last in dict.fromkeys(owner[name] for name in value.consumers):
                if last != first:
                    pair = (first, last)
                    result[pair] = result.get(pair, 0.0) + self._travel_ticks(value)
        return result

    def _travel_ticks(self, value: Value) -> int:
        if value.name not in self._travel:
            payload = max(value.payload(layout) for layout in value.bytes)
            ticks = (c.transfer_ticks(payload, value.messages) for c in self.channels)
            self._travel[value.name] = min(ticks, default=0)
        return self._travel[value.name]


def _scheduled(
    work: Sequence[int], edges: Mapping[tuple[int, int], float], device: Sequence[int]
) -> float:
    """Return the makespan if each device runs the ready cluster with the longest path first.

    Infinite where the clusters close a cycle.
    """
    after: list[list[tuple[int, float]]] = [[] for _ in work]
    missing = [0] * len(work)
    for (first, last), ticks in edges.items():
        after[first].append((last, ticks if device[first] != device[last] else 0.0))
        missing[last] += 1
    tails = _tails(work, after, missing)
    arrival, end, done = [0.0] * len(work), 0.0, 0
    waiting: dict[int, list[tuple[float, int]]] = {d: [] for d in device}
    busy: set[int] = set()
    events = [(0.0, i) for i, count in enumerate(missing) if not count]
    heapify(events)
    while events:
        now, code = heappop(events)
        if code >= 0:  # a cluster has all that it reads
            place = device[code]
            heappush(waiting[place], (-tails[code], code))
        else:  # a device has finished
            place = ~code
            busy.discard(place)
        if place in busy or not waiting[place]:
            continue
        _, i = heappop(waiting[place])
        busy.add(place)
        end, done = max(end, now + work[i]), done + 1
        heappush(events, (now + work[i], ~place))
        for j, ticks in after[i]:
            arrival[j] = max(arrival[j], now + work[i] + ticks)
            missing[j] -= 1
            if not missing[j]:
                heappush(events, (arrival[j], j))
    return end if done == len(work) else inf


def _tails(
    work: Sequence[int], after: Sequence[Sequence[tuple[int, float]]], missing: Sequence[int]
) -> list[float]:
    """Return the longest path from each cluster to the end; on or before a cycle its own work."""
    left, order = list(missing), [i for i, count in enumerate(missing) if not count]
    for i in order:
        for j, _ in after[i]:
            left[j] -= 1
            if not left[j]:
                order.append(j)
    tails = [float(ticks) for ticks in work]
    for i in reversed(order):
        tails[i] += max((ticks + tails[j] for j, ticks in after[i]), default=0.0)
    return tails
