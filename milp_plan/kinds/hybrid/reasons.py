"""Reasons of hybrid parallelism: stages, their times and memory, limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from milp_plan.core import Counts, Verdict
from milp_plan.run.reasons.base import (
    Block,
    Move,
    Reasons,
    Remedy,
    Resource,
    Usage,
    Why,
    moves_of,
    used_up,
)

from .plan import HybridPlan
from .problem import HybridProblem

BOUNDLESS = Fraction(2**80)
"""Memory of a device without limit, bytes."""

MEMORY, DEVICES, RATE = "memory of each device", "devices", "link between any two"


class HybridReasons(Reasons[HybridProblem, HybridPlan]):
    """Reasons of :class:`milp_plan.kinds.hybrid.HybridProblem`."""

    noun, members, place_noun = "layers", "layers", "tensor degree"

    def keep(self, problem: HybridProblem, names: Collection[str]) -> HybridProblem:
        """Leave layers out, with their flows: stages of the others hold less."""
        selected = set(names)
        return replace(
            problem,
            layers=tuple(layer for layer in problem.layers if layer.name in selected),
            flows=tuple(f for f in problem.flows if {f.source, f.target} <= selected),
        )

    def resources(self, problem: HybridProblem) -> tuple[Resource, ...]:
        """Return memory, devices and bandwidth."""
        limits = problem.limits
        return (
            Resource(MEMORY, "memory", int(limits.memory_bytes), Counts.SIZE),
            Resource(DEVICES, "devices", limits.devices, Counts.THINGS, lifted=False),
            Resource(RATE, "link", int(limits.bandwidth_bytes_per_s), Counts.SIZE, lifted=False),
        )

    def resized(self, problem: HybridProblem, amounts: Mapping[str, int | None]) -> HybridProblem:
        """Return the problem under other limits."""
        limits, rate = problem.limits, amounts.get(RATE)
        memory = amounts.get(MEMORY, limits.memory_bytes)
        return problem.with_limits(
            replace(
                limits,
                memory_bytes=BOUNDLESS if memory is None else Fraction(memory),
                devices=amounts.get(DEVICES) or limits.devices,
                bandwidth_bytes_per_s=(
                    limits.bandwidth_bytes_per_s if rate is None else Fraction(rate)
                ),
            )
        )

    def places(self, problem: HybridProblem, part: str) -> tuple[str, ...]:
        """Return the tensor degrees at which the layer has configurations."""
        return tuple(str(d) for d, known in problem.by_name[part].configurations.items() if known)

    def pinned(self, problem: HybridProblem, part: str, place: str) -> HybridProblem:
        """Return the problem with one tensor degree of a layer."""
        self.require_place(problem, part, place)
        layers = tuple(
            replace(layer, configurations={int(place): layer.configurations[int(place)]})
            if layer.name == part
            else layer
            for layer in problem.layers
        )
        return replace(problem, layers=layers)

    def why(self, problem: HybridProblem, plan: HybridPlan, verdict: Verdict) -> Why:
        """Return stages by time and memory: the slowest sets the pace."""
        parts, limits = verdict.components, problem.limits
        count = len(plan.stages)
        usage = [
            Usage(f"stage {i}", "stage", parts[f"seconds {i}"], verdict.value, Counts.TIME)
            for i in range(count)
        ]
        usage.sort(key=lambda entry: -entry.amount)
        memory = [
            Usage(
                f"memory of stage {i}",
                "memory",
                parts[f"memory {i}"],
                int(limits.memory_bytes),
                Counts.SIZE,
            )
            for i in range(count)
        ]
        memory.sort(key=lambda entry: -entry.amount)
        devices = Usage(DEVICES, "devices", parts["devices"], limits.devices, Counts.THINGS)
        limits_used = (*memory, devices)
        blocks = tuple(
            Block(
                f"stage {i}",
                "stage",
                len(stage.choices),
                (f"data {stage.data}, tensor {stage.tensor}",),
                parts[f"seconds {i}"],
                None,
                Counts.TIME,
            )
            for i, stage in enumerate(plan.stages)
        )
        remedies = []
        if count > 1 and usage[0].amount > usage[1].amount:
            text = f"a faster {usage[0].name}: {usage[1].name} sets the pace then"
            remedies.append(Remedy(text, usage[0].amount - usage[1].amount))
        return Why((), tuple(usage), limits_used, used_up(limits_used), blocks, tuple(remedies))

    def moves(
        self, problem: HybridProblem, before: HybridPlan, other: HybridProblem, after: HybridPlan
    ) -> tuple[Move, ...]:
        """Return layers in other stages, with other degrees or configurations, by both."""
        sides = [_stage_texts(plan) for plan in (before, after)]
        work = [_work(*side) for side in ((problem, before), (other, after))]
        unit = other.units.time_scale

        def cost(names: Sequence[str]) -> dict[str, int]:
            return {"work per sample": round(sum(work[1][n] - work[0][n] for n in names) * unit)}

        pairs = (
            (layer.name, *(side.get(layer.name, "nowhere") for side in sides))
            for layer in problem.layers
        )
        return moves_of(
            ((name, ("stage", one, two)) for name, one, two in pairs if one != two), cost
        )


def _stage_texts(plan: HybridPlan) -> dict[str, str]:
    """Return layer -> stage, degrees and configuration in words."""
    return {
        choice.layer: f"stage {i}, data {stage.data}, tensor {stage.tensor}, {choice.configuration}"
        for i, stage in enumerate(plan.stages)
        for choice in stage.choices
    }


def _work(problem: HybridProblem, plan: HybridPlan) -> dict[str, Fraction]:
    """Return layer -> seconds of work per sample of its stage."""
    work = {}
    for stage in plan.stages:
        for choice in stage.choices:
            layer = problem.by_name.get(choice.layer)
            known = layer and layer.configuration(stage.tensor, choice.configuration)
            work[choice.layer] = known.seconds / stage.data if known else Fraction(0)
    return work
