"""Structure of a training graph: micro-batches, passes, layers in the order of depth.

Everything is read from structure: kinds, micro-batch numbers, colocation groups and who reads
what. Names mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property

from milp_plan.core import UPDATE_KIND, PlanningProblem
from milp_plan.core.view import view

from ..indexed import Indexed, Spot, indexed


class Pass(IntEnum):
    """What an operator does in a training step."""

    FORWARD = 0
    BACKWARD = 1
    """Gradient of the inputs."""
    SUM = 2
    """Sum of several gradients of one value."""
    WEIGHT = 3
    """Gradient of the weights."""
    UPDATE = 4


_PASSES = {
    "backward-input": Pass.BACKWARD,
    "backward": Pass.BACKWARD,
    "accumulate": Pass.SUM,
    "backward-weight": Pass.WEIGHT,
    UPDATE_KIND: Pass.UPDATE,
}
_RETURNING = (Pass.BACKWARD, Pass.SUM, Pass.WEIGHT)


class Structure:
    """A problem read as a training step; any other graph is a forward pass in one micro-batch.

    Attributes
    ----------
    passes, batch
        Pass and micro-batch of each operator; micro-batches are numbered from 0, what runs once
        per step has the number of micro-batches.
    num_batches
        At least 1.
    template
        Operators of one micro-batch, and those that run once, in topological order. All operators
        where micro-batches do not share their units.
    layers
        Units in the order of depth, those that belong together in one entry: a forward unit with
        the backward units that mirror it.
    layer_of
        Unit -> its layer.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.view: Indexed = indexed(problem)
        operators = problem.graph.operators
        self.passes = [_PASSES.get(operator.kind, Pass.FORWARD) for operator in operators]
        self._number_batches()
        self.template = self._one_batch()
        self.best: list[dict[int, Spot]] = [_by_site(spots) for spots in self.view.spots]
        self.quickest = [min(spot.duration for spot in spots) for spots in self.view.spots]
        self.layers = _Layers(self).ordered()
        self.layer_of = [0] * len(self.view.units)
        for layer, units in enumerate(self.layers):
            for unit in units:
                self.layer_of[unit] = layer

    def _number_batches(self) -> None:
        operators = self.problem.graph.operators
        labels = sorted({o.micro_batch for o in operators if o.micro_batch is not None})
        self.num_batches = max(1, len(labels))
        number = {label: rank for rank, label in enumerate(labels)}
        once = self.num_batches if labels else 0
        self.batch = [
            once if operator.micro_batch is None else number[operator.micro_batch]
            for operator in operators
        ]

    def _one_batch(self) -> list[int]:
        view = self.view
        if self.num_batches == 1:
            return list(view.topological)
        result = [op for op in view.topological if self.batch[op] in (0, self.num_batches)]
        shared = len({view.unit[op] for op in result}) == len(view.units)
        return result if shared else list(view.topological)

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return any(entry in _RETURNING for entry in self.passes)

    @cached_property
    def repeats(self) -> int:
        """Number of micro-batches per step."""
        return 1 if len(self.template) == self.view.num_operators else self.num_batches

    @cached_property
    def original(self) -> list[int]:
        """Operator of the template that each operator is a copy of; itself where there is none."""
        view, found = self.view, list(range(self.view.num_operators))
        if self.repeats == 1:
            return found
        for members in view.units:
            rows: dict[int, list[int]] = {}
            for operator in members:
                rows.setdefault(self.batch[operator], []).append(operator)
            first = rows.get(0, [])
            for row in rows.values():
                if len(row) == len(first):
                    for operator, model in zip(row, first, strict=True):
                        if len(view.spots[operator]) == len(view.spots[model]):
                            found[operator] = model
        return found

    @cached_property
    def tail(self) -> list[int]:
        """Longest path of shortest durations from each operator to the end, itself included."""
        view, tail = self.view, [0] * self.view.num_operators
        for operator in reversed(view.topological):
            below = max((tail[reader] for reader in view.successors[operator]), default=0)
            tail[operator] = self.quickest[operator] + below
        return tail

    @cached_property
    def head(self) -> list[int]:
        """Longest path of shortest durations from the beginning to each operator, itself not."""
        view, head = self.view, [0] * self.view.num_operators
        for operator in view.topological:
            for reader in view.successors[operator]:
                head[reader] = max(head[reader], head[operator] + self.quickest[operator])
        return head

    @cached_property
    def travel(self) -> list[float]:
        """Mean ticks that each value travels from one device to another; 0 if it never does."""
        channels, values = self.problem.cluster.channels, self.view.values
        if not channels:
            return [0.0] * len(values)
        latency = sum(channel.latency_ticks for channel in channels) / len(channels)
        per_byte = sum(1e9 / c.bandwidth_bytes_per_s for c in channels) / len(channels)
        return [
            0.0
            if value.persistent
            else value.messages * latency + per_byte * min(map(value.payload, value.bytes))
            for value in values
        ]

    @cached_property
    def kept(self) -> list[int]:
        """Bytes per unit that one micro-batch keeps from its forward to its backward pass."""
        view, kept = self.view, [0] * len(self.view.units)
        within = set(self.template)
        for value, producer in enumerate(view.producer):
            if producer in within and self.passes[producer] is Pass.FORWARD:
                returns = any(self.passes[r] in _RETURNING for r in view.consumers[value])
                if returns:
                    kept[view.unit[producer]] += min(view.values[value].bytes.values())
        return kept


def _by_site(spots: list[Spot]) -> dict[int, Spot]:
    result: dict[int, Spot] = {}
    for spot in spots:
        known = result.get(spot.site)
        if known is None or spot.duration < known.duration:
            result[spot.site] = spot
    return result


class _Layers:
    """Pairs backward units with the forward units they mirror, and orders all by depth."""

    def __init__(self, structure: Structure) -> None:
        self.s, self.view = structure, structure.view
        self.within = set(structure.template)
        units = len(self.view.units)
        self.forward = [False] * units
        self.before: list[set[int]] = [set() for _ in range(units)]
        self.after: list[set[int]] = [set() for _ in range(units)]
        self.mirror: dict[int, int] = {}
        for operator in structure.template:
            if structure.passes[operator] is Pass.FORWARD:
                self._meet(operator)

    def _meet(self, operator: int) -> None:
        """Record an operator of the forward pass, and which forward units it leads to."""
        passes, unit = self.s.passes, self.view.unit
        self.forward[unit[operator]] = True
        for reader in self.view.successors[operator]:
            if passes[reader] is Pass.FORWARD and reader in self.within:
                self.after[unit[operator]].add(unit[reader])
                self.before[unit[reader]].add(unit[operator])

    def ordered(self) -> list[list[int]]:
        """Return the layers."""
        depth = self._depths()
        members: dict[int, list[int]] = {}
        floating: list[tuple[tuple[float, float], int]] = []
        returning = self._backward_units()
        for _ in range(2):  # some are found by mirrors next to them
            for unit in returning:
                if unit not in self.mirror and (forward := self._mirror(unit)) >= 0:
                    self.mirror[unit] = forward
        for unit in returning:
            mirror = self.mirror.get(unit, -1)
            if mirror >= 0:
                members.setdefault(mirror, []).append(unit)
                depth[unit] = depth[mirror]
            else:
                depth[unit] = self._depth_behind(unit, depth)
                floating.append(((depth[unit], 1.0), unit))
        entries = [
            ((depth[unit], 0.0), [unit, *members.get(unit, [])])
            for unit, forward in enumerate(self.forward)
            if forward
        ]
        entries += [(key, [unit]) for key, unit in floating]
        return [units for _, units in sorted(entries, key=lambda entry: entry[0])]

    def _depths(self) -> list[float]:
        """Head of each unit's first forward operator; -1 for units of the backward pass."""
        depth = [-1.0] * len(self.view.units)
        for operator in reversed(self.s.template):
            if self.s.passes[operator] is Pass.FORWARD:
                unit = self.view.unit[operator]
                known, head = depth[unit], float(self.s.head[operator])
                depth[unit] = head if known < 0 else min(known, head)
        return depth

    def _backward_units(self) -> list[int]:
        """Return the units without a forward operator, those that run last first."""
        unit = self.view.unit
        order = (unit[op] for op in reversed(self.s.template) if not self.forward[unit[op]])
        result = list(dict.fromkeys(order))
        missing = [u for u, there in enumerate(self.forward) if not there]
        return result + [u for u in missing if u not in set(result)]

    def _depth_behind(self, unit: int, depth: list[float]) -> float:
        """Depth of the deepest unit that reads its gradients, or whose values it reads."""
        view = self.view
        members = [op for op in view.units[unit] if op in self.within] or view.units[unit]
        readers = (r for op in members for r in view.successors[op])
        known = [
            depth[view.unit[r]]
            for r in readers
            if self.s.passes[r] is not Pass.UPDATE and view.unit[r] != unit
        ]
        known = [each for each in known if each >= 0]
        if not known:
            sources = (p for op in members for p in view.predecessors[op])
            known = [depth[view.unit[p]] for p in sources]
        return max(known, default=0.0)

    def _mirror(self, unit: int) -> int:
        """Return the forward unit without a backward pass of its own that fits best, or -1.

        A backward operator reads what its forward operator made, or what that one read; its
        gradients come from the layers behind, and go to those before.
        """
        members = [op for op in self.view.units[unit] if op in self.within]
        if all(self.s.passes[op] is Pass.SUM for op in members):
            return -1
        score: Counter[int] = Counter()
        behind: set[int] = set()
        ahead: set[int] = set()
        for operator in members:
            score.update(self._forward_ends(operator))
            behind.update(self._beyond_sums(operator, self.view.predecessors))
            ahead.update(self._beyond_sums(operator, self.view.successors))
        near = {other for each in behind for other in self.before[each]}
        near.update(other for each in ahead for other in self.after[each])
        best, most = -1, 1
        for candidate in sorted(near.union(score)):
            if self.forward[candidate] and not self._returns(candidate):
                between = len(self.after[candidate] & behind), len(self.before[candidate] & ahead)
                fit = 2 * score[candidate] + sum(between)
                if fit > most and (score[candidate] or all(between)):
                    best, most = candidate, fit
        return best

    def _forward_ends(self, operator: int) -> list[int]:
        """Return units that made an operator's activations, or read them in the forward pass."""
        view, passes, found = self.view, self.s.passes, []
        for value, _ in view.spots[operator][0].reads:
            producer = view.producer[value]
            if passes[producer] is Pass.FORWARD:
                found.append(view.unit[producer])
                for reader in view.consumers[value]:
                    if passes[reader] is Pass.FORWARD and reader in self.within:
                        found.append(view.unit[reader])
        return found

    def _beyond_sums(self, operator: int, steps: Sequence[Sequence[int]]) -> list[int]:
        """Layers of the backward pass next to an operator, sums of gradients looked through."""
        unit, passes, found = self.view.unit, self.s.passes, []
        for other in steps[operator]:
            if passes[other] is Pass.SUM:
                found += [unit[beyond] for beyond in steps[other]]
            elif passes[other] in _RETURNING:
                found.append(unit[other])
        return [self.mirror.get(each, each) for each in found]

    def _returns(self, unit: int) -> bool:
        """Return whether a unit has a backward pass of its own."""
        return any(self.s.passes[op] in _RETURNING for op in self.view.units[unit])


@view
def structure(problem: PlanningProblem) -> Structure:
    """Return the structure of a problem's graph."""
    return Structure(problem)
