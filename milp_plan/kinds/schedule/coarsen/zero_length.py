"""Operators that take no time are merged into a neighbour: an exact step."""

from __future__ import annotations

from dataclasses import dataclass, field

from milp_plan.core import MemoryLaw, Objective, Operator, PlanningProblem

from .composite import OptionChoice, layouts
from .contraction import contract
from .reduction import Reduction


@dataclass
class _Cluster:
    """Running order: ``before``, the core, ``after``; all but the core take no time."""

    core: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def members(self) -> list[str]:
        return [*self.before, self.core, *self.after]


class ZeroLengthAbsorption:
    """Merge operators that take no time into the one operator they serve. Exact.

    Profiled graphs are full of them: a weight node that feeds one operator, a node that only
    looks at the result of another. X is a set of operators with no length under the options
    concerned, R a cluster with core r. X joins R when, under each option of r, every member of X
    has exactly one option of that gang, of no length on r's classes, with layouts that fit, when
    it has no colocation group other than r's, and in one of these cases.

    *Source*: X reads nothing but persistent values, and only R reads what X makes. Proof: move X
    to r's site, at the start of r. What X makes is there from then until r stops, where a copy of
    it lay before; nothing has to be sent any more.

    *Sink*: X reads from R alone, and nobody else reads what X makes. Move X to r's site, at the
    stop of r; what it reads from r lies there anyway.

    *Same group*: X has r's group, so it is on r's site in every plan, and R is its only reader
    (X moves to just before r) or its only supplier (X moves to just after r). No copy is made
    later or needed sooner, but copies may lie there longer.

    In each case X ends up within the run of r, whose device spans it anyway, and no other device
    spans more without X.

    Persistent values of X move with it, and copies may lie longer in the third case: harmless where
    the site is the same (first case of persistence), or where no device can ever run out of memory
    and the objective does not count it. Results that X leaves would stay at r's site: only in the
    last of these cases. A value never has to lie there while r runs without having to do with r:
    who stands after r joined when it read from R alone, so no X that joins later feeds it, and
    likewise before r. The static law counts copies that last no time, so the step leaves its
    problems alone.
    """

    name = "zero-length operators"
    exact = True

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Contract until nothing can be merged; ``None`` if nothing was."""
        if problem.memory_law is MemoryLaw.STATIC:
            return None
        absorption = _Absorption(problem)
        absorption.run()
        clusters = [c for c in absorption.clusters.values() if len(c.members) > 1]
        if not clusters:
            return None
        choices = {c.members[0]: absorption.choices(c) or [] for c in clusters}
        return contract(
            problem,
            [cluster.members for cluster in clusters],
            name=self.name,
            exact=True,
            choices=choices,
            bundle_transfers=False,
        )


class _Absorption:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.graph = problem.graph
        self.clusters = {name: _Cluster(name) for name in self.graph.topological_order}
        self.home = {name: name for name in self.clusters}
        self.roomy = problem.objective is not Objective.PEAK_MEMORY and memory_never_binds(problem)

    def run(self) -> None:
        """Merge until a whole pass changes nothing."""
        changed = True
        while changed:
            changed = False
            for name in list(self.clusters):
                cluster = self.clusters[name]
                if _can_be_zero(self.graph.operator(name)) and self._join(cluster):
                    changed = True

    def choices(self, cluster: _Cluster) -> list[OptionChoice] | None:
        """Return one choice per option of the core; ``None`` if a member has no matching option."""
        result = []
        for option in self.graph.operator(cluster.core).options:
            picked = []
            for member in cluster.members:
                if member == cluster.core:
                    picked.append(option)
                    continue
                pool = [o for o in self.graph.operator(member).options if o.gang == option.gang]
                if len(pool) != 1 or any(
                    pool[0].duration_ticks.get(c) != 0 for c in option.duration_ticks
                ):
                    return None
                picked.append(pool[0])
            choice = OptionChoice(option.name, tuple(picked), tuple(option.duration_ticks))
            if layouts(self.graph, cluster.members, choice) is None:
                return None
            result.append(choice)
        return result

    def _join(self, cluster: _Cluster) -> bool:
        made = [v for m in cluster.members for v in self.graph.outputs[m]]
        read = [v for m in cluster.members for v in self.graph.inputs[m]]
        suppliers = {self.home[v.producer] for v in read if v.producer} - {cluster.core}
        readers = {self.home[c] for v in made for c in v.consumers} - {cluster.core}
        for hosts, others, ahead in ((readers, suppliers, True), (suppliers, readers, False)):
            if len(hosts) == 1:
                host = self.clusters[next(iter(hosts))]
                if self._agree(cluster, host, bool(others)) and self._put(cluster, host, ahead):
                    return True
        return False

    def _agree(self, cluster: _Cluster, host: _Cluster, bound: bool) -> bool:
        """Return whether groups, values that stay and neighbours (``bound``) allow the merge."""
        group = self.graph.operator(host.core).group
        for member in cluster.members:
            own = self.graph.operator(member).group
            if own is not None and own != group:
                return False
            persistent = any(v.persistent for v in self.graph.inputs[member])
            results = any(v.is_kept and any(v.bytes.values()) for v in self.graph.outputs[member])
            if (results or (persistent and own is None)) and not self.roomy:
                return False
        if not bound:
            return True
        return group is not None and self.graph.operator(cluster.core).group == group and self.roomy

    def _put(self, cluster: _Cluster, host: _Cluster, ahead: bool) -> bool:
        joined = _Cluster(host.core, host.before, host.after)
        if ahead:
            joined.before = [*cluster.members, *host.before]
        else:
            joined.after = [*host.after, *cluster.members]
        if self.choices(joined) is None:
            return False
        self.clusters[host.core] = joined
        del self.clusters[cluster.core]
        for member in cluster.members:
            self.home[member] = host.core
        return True


def _can_be_zero(operator: Operator) -> bool:
    return any(ticks == 0 for o in operator.options for ticks in o.duration_ticks.values())


def memory_never_binds(problem: PlanningProblem) -> bool:
    """Return whether every device has room for everything it could ever hold together."""
    cluster, graph = problem.cluster, problem.graph
    limits = [device.memory_bytes for device in cluster.devices]
    limit = min((number for number in limits if number is not None), default=None)
    if limit is None:
        return True
    copies = 2 + len(cluster.groups)  # native, sent, resharded to each group
    stored = sum(
        sum(value.bytes.values()) * (1 if value.persistent else copies) for value in graph.values
    )
    workspace = max(o.workspace_bytes for op in graph.operators for o in op.options)
    return stored + workspace <= limit
