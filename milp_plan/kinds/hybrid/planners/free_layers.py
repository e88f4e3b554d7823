"""Removes layers that cost nothing before planning and inserts them afterwards; exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from ..plan import Choice, HybridPlan, Stage
from ..problem import Configuration, Flow, HybridProblem, Layer, Limits


@dataclass(frozen=True)
class FreeLayers:
    """A problem without its free layers.

    A layer is free when at every tensor degree of the problem it has an allowed configuration
    without time, parameters and memory, and no byte flows from or to it, gathering and scattering
    at both ends included. Without it, what it read feeds what read it.

    Proof that the optimum stays: leaving free layers (and stages that become empty) out of a plan
    changes no cost, takes no more devices, no later stage and no more micro-batches in flight, and
    the order of the others keeps the flows that bridge a free layer. The other way, put each free
    layer, in the order of the flows, into the latest stage of what it reads (the first if it reads
    nothing): that stage is no later than any reader's because of the bridges, and it costs nothing.
    """

    original: HybridProblem
    problem: HybridProblem
    removed: tuple[str, ...]

    def restore(self, plan: HybridPlan) -> HybridPlan:
        """Return the plan of the original problem that belongs to one of the reduced problem."""
        choices = [list(stage.choices) for stage in plan.stages]
        place = {c.layer: i for i, stage in enumerate(plan.stages) for c in stage.choices}
        sources = _neighbours(self.original.flows)[0]
        for name in self.removed:
            at = max((place[other] for other in sources.get(name, ())), default=0)
            layer, tensor = self.original.by_name[name], plan.stages[at].tensor
            entry = _costless(layer.configurations[tensor], self.original.limits)
            assert entry is not None
            choices[at].append(Choice(name, entry.name))
            place[name] = at
        stages = (
            Stage(tuple(entries), stage.data, stage.tensor)
            for entries, stage in zip(choices, plan.stages, strict=True)
        )
        return replace(plan, stages=tuple(stages))


def without_free_layers(problem: HybridProblem) -> FreeLayers:
    """Remove the layers that cost nothing, all but one if there are no others."""
    removed = [name for name in problem.order if _is_free(problem, name)]
    if len(removed) == len(problem.layers):
        removed.pop()
    if not removed:
        return FreeLayers(problem, problem, ())
    flows = {(flow.source, flow.target): flow for flow in problem.flows}
    for name in removed:
        sources, targets = _neighbours(flows.values())
        before, after = sources.get(name, set()), targets.get(name, set())
        flows = {ends: flow for ends, flow in flows.items() if name not in ends}
        for source in before:
            for target in after:
                flows.setdefault((source, target), Flow(source, target, Fraction(0)))
    gone = set(removed)
    layers = tuple(_trimmed(layer, gone) for layer in problem.layers if layer.name not in gone)
    smaller = replace(problem, layers=layers, flows=tuple(flows.values()))
    return FreeLayers(problem, smaller, tuple(removed))


def allowed(entry: Configuration, limits: Limits) -> bool:
    """Return whether the switches allow a configuration."""
    return limits.recomputation or not entry.recomputes


def _costless(known: Iterable[Configuration], limits: Limits) -> Configuration | None:
    for entry in known:
        if allowed(entry, limits) and not any(amount for _, amount in entry.amounts()):
            return entry
    return None


def _is_free(problem: HybridProblem, name: str) -> bool:
    layer = problem.by_name[name]
    for degree in problem.degrees:
        if _costless(layer.configurations.get(degree, ()), problem.limits) is None:
            return False
    for flow in problem.flows:
        if name not in (flow.source, flow.target):
            continue
        if flow.bytes or _extra(problem.by_name[flow.source], flow.target, sends=True):
            return False
        if _extra(problem.by_name[flow.target], flow.source, sends=False):
            return False
    return True


def _extra(layer: Layer, other: str, *, sends: bool) -> bool:
    """Return whether any configuration adds bytes to the flow with a neighbour."""
    entries = (entry for known in layer.configurations.values() for entry in known)
    return any((e.send_bytes if sends else e.receive_bytes).get(other, 0) for e in entries)


def _trimmed(layer: Layer, gone: set[str]) -> Layer:
    """Return the layer without (zero) bytes from and to layers that were removed."""
    return Layer(
        layer.name,
        {
            degree: tuple(
                replace(
                    entry,
                    receive_bytes={k: v for k, v in entry.receive_bytes.items() if k not in gone},
                    send_bytes={k: v for k, v in entry.send_bytes.items() if k not in gone},
                )
                for entry in known
            )
            for degree, known in layer.configurations.items()
        },
    )


def _neighbours(flows: Iterable[Flow]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    sources: dict[str, set[str]] = {}
    targets: dict[str, set[str]] = {}
    for flow in flows:
        sources.setdefault(flow.target, set()).add(flow.source)
        targets.setdefault(flow.source, set()).add(flow.target)
    return sources, targets
