"""Stages: clusters that keep micro-batches, passes and branches apart."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from milp_plan.core import PlanningProblem
from milp_plan.core.graph import FORWARD_KIND

from .caps import RUNGS, caps_of, scale
from .contraction import contract
from .nodes import Caps
from .quotient import Quotient
from .reduction import Reduction


@dataclass(frozen=True)
class StageClustering:
    """Cut the graph into stages of like work, and each stage where parallelism needs it. Heuristic.

    A stage is an interval of colocation groups along the forward pass, in depth-first order, so
    that a tower or a branch lies in few stages; what runs backward stands where it came from.
    The operators of a stage form one cluster for each

    - visit: how often a path has left the stage and come back before (forward and backward),
    - micro-batch, or run of a power of two of them: see :func:`pipeline_time`,
    - pass: whether another stage waits for a result, where a pipeline then ends earlier (a weight
      gradient is waited for by the update alone, so it is apart from the gradient of the input),
    - branch: what neither edges nor colocation groups connect inside the stage.

    Parameters
    ----------
    target
        Operators wanted. Stages are as small as the target allows. There can be more where memory,
        sites or layouts forbid a merge.
    """

    target: int
    name = "stages"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Contract the clusters of the smallest stages within the target."""
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[-1], scale(quotient), self.target)
        place = {name: i for i, name in enumerate(quotient.names)}
        for cluster in best_cut(problem, self.target).clusters:
            _merge(quotient, [place[name] for name in cluster], caps)
        clusters = quotient.clusters()
        return contract(problem, clusters, name=self.name) if clusters else None


def _merge(quotient: Quotient, nodes: list[int], caps: Caps) -> None:
    """Merge a cluster; where that is not allowed, merge its runs of neighbours that may."""
    if len(nodes) > 1 and quotient.may_merge(nodes, caps):
        quotient.merge(nodes)
        return
    run: list[int] = []
    for node in sorted(nodes):
        if run and quotient.may_merge([*run, node], caps):
            run = [quotient.merge([*run, node])]
        else:
            run = [node]


class Cut(NamedTuple):
    """Clusters, each in topological order, and what they come from.

    ``passing`` is the part of the work that other stages wait for, or stands in a cluster with it.
    """

    clusters: list[list[str]]
    stages: int
    batches: int
    passing: float


def best_cut(problem: PlanningProblem, target: int) -> Cut:
    """Return the cut within the target whose pipeline ends first; of equals the finest batches."""
    cuts: list[Cut] = []
    size = 1
    while not cuts or cuts[-1].batches > 1:
        stages = Stages(problem, size)
        cuts += [stages.within(target, split=split) for split in (True, False)]
        size *= 2
    devices = len(problem.cluster.devices)
    return min(cuts, key=lambda cut: pipeline_time(cut, devices))


def pipeline_time(cut: Cut, devices: int) -> float:
    """Return how long a pipeline of equal stages takes, in terms of its work on one device.

    While it fills and drains a device waits for the work that passes through the other stages.
    """
    fill = (cut.stages - 1) * cut.passing
    return (cut.batches + fill) / (cut.batches * min(cut.stages, devices))


class Stages:
    """A problem's graph as a line of colocation groups that stages are cut from.

    Parameters
    ----------
    problem
        Any problem.
    size
        Micro-batches that one cluster takes.
    """

    def __init__(self, problem: PlanningProblem, size: int) -> None:
        self.graph = problem.graph
        self.order = problem.graph.depth_first_order
        labels = {o.name: o.micro_batch for o in self.graph.operators}
        numbers = sorted({label for label in labels.values() if label is not None})
        run = {label: rank // size for rank, label in enumerate(numbers)}
        self.batch = {n: None if label is None else run[label] for n, label in labels.items()}
        self.num_batches = max(1, len(set(run.values())))
        self.unit = {o.name: o.group or f"\0{o.name}" for o in self.graph.operators}
        self.ticks = {
            operator.name: min(o.gang * min(o.duration_ns.values()) for o in operator.options)
            for operator in self.graph.operators
        }
        self.work = dict.fromkeys(self._line(), 0)
        for name, ticks in self.ticks.items():
            self.work[self.unit[name]] += ticks

    def _line(self) -> list[str]:
        """Units along the forward pass; others stand at the last forward operator they read.

        What reads none stands at the last unit of those that read it, or else at the first that
        it reads: gradients come from the end. An operator of a later micro-batch stands where
        those of the first do that feed what it reads.
        """
        graph = self.graph
        operators = {operator.name: operator for operator in graph.operators}
        batches = {o.micro_batch for o in operators.values() if o.micro_batch is not None}
        first = min(batches, default=None)
        place: dict[str, int] = {}
        later: list[str] = []
        for name in self.order:
            operator, unit = operators[name], self.unit[name]
            again = operator.group is None and operator.micro_batch not in (None, first)
            if operator.kind == FORWARD_KIND and not (again and graph.predecessors[name]):
                place.setdefault(unit, len(place))
            else:
                later.append(name)
        for name in later:
            before = [self.unit[b] for b in graph.predecessors[name]]
            ahead = [
                self.unit[b] for b in graph.predecessors[name] if operators[b].kind == FORWARD_KIND
            ]
            after = [u for a in graph.successors[name] if (u := self.unit[a]) in place]
            if ahead or after:
                rank = max(place[unit] for unit in ahead or after)
            else:
                rank = min((place[unit] for unit in before), default=len(place))
            place.setdefault(self.unit[name], rank)
        return sorted(place, key=place.__getitem__)

    def within(self, target: int, *, split: bool = True) -> Cut:
        """Return the smallest stages with at most ``target`` clusters; else one stage."""
        low, high = 0, sum(self.work.values())
        while low < high:
            middle = (low + high) // 2
            if len(self.cut(middle, split=split).clusters) <= target:
                high = middle
            else:
                low = middle + 1
        return self.cut(high, split=split)

    def cut(self, most: int, *, split: bool = True) -> Cut:
        """Return the clusters of stages of at most that much work, but for larger units.

        ``split`` says whether what no other stage waits for is apart.
        """
        number = self._intervals(most)
        stage = {name: number[self.unit[name]] for name in self.order}
        visit, branch = self._visits(stage), self._branches(stage)
        waited_for = self._waited_for(stage) if split else dict.fromkeys(self.order, True)
        found: dict[Hashable, list[str]] = {}
        for name in self.order:
            sort = (self.batch[name], waited_for[name])
            found.setdefault((stage[name], visit[name], branch[name], sort), []).append(name)
        passing = sum(ticks for name, ticks in self.ticks.items() if waited_for[name])
        share = passing / max(1, sum(self.ticks.values()))
        stages = 1 + max(number.values(), default=0)
        return Cut(list(found.values()), stages, self.num_batches, share)

    def _intervals(self, most: int) -> dict[str, int]:
        """Unit -> its stage, of at most that much work but for larger units; from the left."""
        number, filled, found = 0, 0, dict[str, int]()
        for unit, work in self.work.items():
            if filled and filled + work > most:
                number, filled = number + 1, 0
            filled += work
            found[unit] = number
        return found

    def _visits(self, stage: dict[str, int]) -> dict[str, int]:
        """Operator -> how often a path to it has left its stage and come back."""
        latest: dict[str, dict[int, int]] = {}
        found: dict[str, int] = {}
        for name in self.order:
            own, seen, visit = stage[name], dict[int, int](), 0
            for before in self.graph.predecessors[name]:
                for other, count in latest[before].items():
                    seen[other] = max(seen.get(other, 0), count)
                back = int(stage[before] != own)
                visit = max(visit, latest[before].get(own, -back) + back)
            found[name] = visit
            latest[name] = seen | {own: max(visit, seen.get(own, 0))}
        return found

    def _waited_for(self, stage: dict[str, int]) -> dict[str, bool]:
        """Operator -> whether another stage waits for it, within its micro-batch."""
        found: dict[str, bool] = {}
        for name in reversed(self.order):
            found[name] = any(
                stage[after] != stage[name] or found[after]
                for after in self.graph.successors[name]
                if self.batch[after] == self.batch[name]
            )
        return found

    def _branches(self, stage: dict[str, int]) -> dict[str, str]:
        """Operator -> an operator that stands for its branch of the stage."""
        leader = {name: name for name in self.order}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        first: dict[str, str] = {}
        for name in self.order:
            leader[find(name)] = find(first.setdefault(self.unit[name], name))
            for before in self.graph.predecessors[name]:
                if stage[before] == stage[name]:
                    leader[find(name)] = find(before)
        return {name: find(name) for name in self.order}
