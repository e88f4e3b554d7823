"""Classes in a line cut into segments: one segment per call, or a class on a host.

For a given topological order of the classes, dynamic programming finds the cuts for which calls
and hosts, taken one after another, need the least time. Its value is the latency of a plan that
never does two things at once, so the plan itself is at least as fast. Random orders give other
plans; every plan with one call per device results from some order.

Source: the ideal-based programme of Tarnawski et al. (NeurIPS 2020, section 5.1), on one chain of
ideals, with the sum of loads in place of their maximum.
"""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from milp_plan.core.compiled import compiled

from ...serial.graph import Floats, Ints, ragged
from ...serial.operators import HOST, OperatorTables
from .timing import Arrays


class Line:
    """The classes of a problem, merged on cycles, and orders of them.

    Parameters
    ----------
    tables, arrays
        The problem.
    """

    def __init__(self, tables: OperatorTables, arrays: Arrays) -> None:
        self.tables, self.arrays = tables, arrays
        count = len(tables.graph)
        import networkx as nx  # takes long to load

        between: nx.DiGraph[int] = nx.DiGraph()
        between.add_nodes_from(kind for kind in range(count) if tables.members[kind])
        for reader, sources in enumerate(tables.before):
            for source in sources:
                pair = tables.class_of[source], tables.class_of[reader]
                if pair[0] != pair[1]:
                    between.add_edge(*pair)
        parts = [sorted(part) for part in nx.strongly_connected_components(between)]
        parts.sort()
        self.block_of = np.full(count, -1, dtype=np.int64)
        for number, part in enumerate(parts):
            self.block_of[part] = number
        self.blocks = parts
        self.edges = {
            (int(self.block_of[a]), int(self.block_of[b]))
            for a, b in between.edges
            if self.block_of[a] != self.block_of[b]
        }
        self.after: list[list[int]] = [[] for _ in parts]
        self.waits = [0] * len(parts)
        for a, b in sorted(self.edges):
            self.after[a].append(b)
            self.waits[b] += 1
        work = np.zeros(count)
        np.add.at(work, np.array(tables.class_of, dtype=np.int64), tables.float_work)
        self.work = np.array([work[part].sum() for part in parts])
        self.host = np.array([self._host_time(part) for part in parts])
        self.size = np.array(
            [sum(self.tables.size[c] for c in part) for part in parts], dtype=np.int64
        )
        self.ends = self._ends()

    def _host_time(self, part: Sequence[int]) -> float:
        """Return the longest chain of a block's operators on a host."""
        end: dict[int, float] = {}
        inside = set(part)
        for i in self.tables.order:
            if self.tables.class_of[i] in inside:
                ready = max((end.get(s, 0.0) for s in self.tables.before[i]), default=0.0)
                end[i] = ready + float(self.tables.float_host_work[i])
        return max(end.values())

    def _ends(self) -> tuple[Floats, Ints, Ints, Ints, Ints]:
        """Return values between blocks: cost, blocks per value (source first), values per block."""
        block = [int(self.block_of[c]) for c in self.tables.class_of]
        cost, ends = [], []
        for value, each in zip(self.tables.values, self.tables.float_costs, strict=True):
            home = block[value.source]
            away = sorted({block[r] for r in value.readers} - {home})
            if away:
                cost.append(float(each))
                ends.append((home, *away))
        touching: list[list[int]] = [[] for _ in self.blocks]
        for number, entry in enumerate(ends):
            for other in entry:
                touching[other].append(number)
        end_ptr, end = ragged(ends)
        touch_ptr, touch = ragged([tuple(entry) for entry in touching])
        return np.array(cost), end_ptr, end, touch_ptr, touch

    def order(self, seed: int | None) -> Ints:
        """Return a depth-first topological order; children and roots shuffled by the seed."""
        rng = np.random.default_rng(seed)
        missing = list(self.waits)
        stack = [b for b in reversed(range(len(self.blocks))) if not missing[b]]
        breadth = 0.0
        if seed is not None:
            rng.shuffle(stack)
            breadth = float(rng.choice([0.0, 0.0, 0.1, 0.5]))
        order = []
        while stack:
            number = stack.pop(0 if breadth and rng.random() < breadth else -1)
            order.append(number)
            after = list(reversed(self.after[number]))
            if seed is not None:
                rng.shuffle(after)
            for other in after:
                missing[other] -= 1
                if missing[other] == 0:
                    stack.append(other)
        return np.array(order, dtype=np.int64)

    def greedy(self, order: Ints, calls: int = 1) -> Ints:
        """Fill one device after another in the order; the rest goes to the host.

        Source: the greedy baseline of Tarnawski et al. (2020), section 6.
        """
        memory, device, held = self.arrays.memory, 0, 0
        places = np.full(len(self.tables), HOST, dtype=np.int64)
        for block in order:
            if held + self.size[block] > memory:
                device, held = device + 1, 0
            if device >= self.arrays.devices:
                break
            held += int(self.size[block])
            self._put(places, int(block), device * calls)
        return places

    def cut(self, order: Ints) -> tuple[Ints, float]:
        """Return the best cut of an order into segments and its time one after another."""
        arrays = self.arrays
        times, choice = segment_times(
            order, self.work, self.host, self.size, self.ends, arrays.devices, arrays.memory
        )
        device = int(np.argmin(times[len(order)]))
        value = float(times[len(order), device])
        places = np.full(len(self.tables), HOST, dtype=np.int64)
        at = len(order)
        while at > 0 and np.isfinite(value):
            begin = int(choice[at, device])
            if begin < 0:
                at -= 1
                continue
            device -= 1
            for block in order[begin:at]:
                self._put(places, int(block), device * arrays.calls)
            at = begin
        return places, value

    def _put(self, places: Ints, block: int, place: int) -> None:
        for kind in self.blocks[block]:
            places[list(self.tables.members[kind])] = place


@compiled
def segment_times(order, work, host, size, ends, devices, memory):
    """Return the least time of each prefix by number of devices, and where its last segment begins.

    A last step on the host has begin -1.
    """
    cost, end_ptr, end, touch_ptr, touch = ends
    count = order.shape[0]
    times = np.full((count + 1, devices + 1), np.inf)
    choice = np.full((count + 1, devices + 1), -1, dtype=np.int64)
    times[0, 0] = 0.0
    inside = np.zeros(cost.shape[0], dtype=np.int64)
    for stop in range(1, count + 1):
        for d in range(devices + 1):
            times[stop, d] = times[stop - 1, d] + host[order[stop - 1]]
        inside[:] = 0
        load, held = 0.0, 0
        for begin in range(stop - 1, -1, -1):
            b = order[begin]
            held += size[b]
            if held > memory:
                break
            load += work[b]
            for slot in range(touch_ptr[b], touch_ptr[b + 1]):
                v = touch[slot]
                all_of = end_ptr[v + 1] - end_ptr[v]
                inside[v] += 1
                source = end[end_ptr[v]] == b
                # Blocks join from the back, so a value's readers join before its source.
                if source and inside[v] < all_of:
                    load += cost[v] if inside[v] == 1 else 0.0
                elif source:
                    load -= cost[v]
                elif inside[v] == 1:
                    load += cost[v]
            for d in range(devices):
                total = times[begin, d] + load
                if total < times[stop, d + 1]:
                    times[stop, d + 1] = total
                    choice[stop, d + 1] = begin
    return times, choice
