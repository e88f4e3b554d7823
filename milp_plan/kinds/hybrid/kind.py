"""Hybrid parallelism: stages with data and tensor degree and recomputation (Piper)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.amounts import json_number, size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document
from milp_plan.run.change import Change, count, rate, size
from milp_plan.run.kind import Format, Kind, Measure
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .plan import HybridPlan
    from .problem import HybridProblem

SWITCHES = (
    Change("no_data", "No data parallelism."),
    Change("no_tensor", "No tensor parallelism."),
    Change("no_recomputation", "No recomputation of activations."),
)
"""Changes that switch off a kind of parallelism or recomputation."""

AMOUNTS = {
    "devices": Change("devices", "Number of devices.", count, "N"),
    "memory_bytes": Change("memory", "Memory of each device: 8GiB, 80GB.", size, "SIZE"),
    "bandwidth_bytes_per_s": Change("bandwidth", "Between devices: 25GB/s.", rate, "RATE"),
    "micro_batches": Change(
        "micro_batches", "Micro-batches of a batch; data degrees divide it.", count, "N"
    ),
}
"""Name of a limit -> the change that replaces the file's number."""


class Hybrid(Kind["HybridProblem", "HybridPlan"]):
    """The kind of :class:`milp_plan.kinds.hybrid.HybridProblem`."""

    name = "hybrid"
    title = "stages of a pipeline with data and tensor degree and recomputation each (Piper)"
    handles = "milp_plan.kinds.hybrid.problem:HybridProblem"
    plans = "milp_plan.kinds.hybrid.plan:HybridPlan"
    plan_marker = "milp-plan-hybrid-plan"
    sizes = ("memory",)
    things = ("devices", "in")
    changes = (*AMOUNTS.values(), *SWITCHES)

    def formats(self) -> tuple[Format[HybridProblem], ...]:
        """Return the format of Piper's benchmark."""
        from . import piper

        return (Format("piper", piper.TITLE, piper.can_read, _read, piper.to_json),)

    def read_plan(self, file: Path, problem: HybridProblem, instance_file: Path) -> HybridPlan:
        """Read a plan of hybrid parallelism."""
        from .format import read_hybrid_plan

        plan = read_hybrid_plan(file)
        refuse_other(plan.problem, problem.name, file, instance_file)
        return plan

    def plan_text(self, plan: HybridPlan) -> bytes:
        """Return the text of a plan's file."""
        from .format import hybrid_plan_to_json

        return hybrid_plan_to_json(plan)

    def verify(self, problem: HybridProblem, plan: HybridPlan) -> Verdict:
        """Check under the limits that the plan was made for, if it names them."""
        from .check import verify_hybrid

        return verify_hybrid(_as_planned(problem, plan), plan)

    def measure(self, problem: HybridProblem) -> Measure:
        """Return seconds per sample, in ticks that make every stage's time an integer."""
        return Measure("time_per_sample", problem.units)

    def scope(self, problem: HybridProblem) -> Scope:
        """Return stages and their degrees, as far as the limits allow."""
        limits = problem.limits
        known = [c for layer in problem.layers for cs in layer.configurations.values() for c in cs]
        wide, again = problem.degrees[-1:] > (1,), any(entry.recomputes for entry in known)
        offers = (
            ("data parallelism", True, limits.data, "--no-data"),
            ("tensor parallelism", wide, limits.tensor, "--no-tensor"),
            ("recomputation", again, limits.recomputation, "--no-recomputation"),
        )
        return Scope(
            ("stages", *(text for text, there, allowed, _ in offers if there and allowed)),
            (f"{limits.micro_batches:,} micro-batches of a batch", "1F1B"),
            tuple(
                NotOffered(text, f"leave out {option}" if there else "")
                for text, there, allowed, option in offers
                if not (there and allowed)
            ),
        )

    def summary(self, problem: HybridProblem) -> dict[str, Any]:
        """Return sizes and limits."""
        limits = problem.limits
        return {
            "operators": len(problem.layers),
            "flows": len(problem.flows),
            "devices": limits.devices,
            "limits": {
                "devices": limits.devices,
                "memory_bytes": json_number(limits.memory_bytes),
                "bandwidth_bytes_per_s": json_number(limits.bandwidth_bytes_per_s),
                "micro_batches": limits.micro_batches,
                "data": limits.data,
                "tensor": limits.tensor,
                "recomputation": limits.recomputation,
            },
        }

    def rows(self, problem: HybridProblem) -> list[list[str]]:
        """Return sizes and limits as rows of text."""
        return [
            ["layers", f"{len(problem.layers):,}"],
            ["flows", f"{len(problem.flows):,}"],
            ["tensor degrees", ", ".join(map(str, problem.degrees))],
            ["limits", limits_text(problem)],
        ]

    def plan_summary_table(
        self, problem: HybridProblem, plan: HybridPlan, verdict: Verdict
    ) -> list[list[str]]:
        """Return a line per stage."""
        if not verdict.ok:
            return []
        heads = ["stage", "layers", "from", "data", "tensor", "recomputed", "in flight"]
        rows = [[*heads, "memory", "per sample"]]
        for i, stage in enumerate(plan.stages):
            chosen = [
                problem.by_name[choice.layer].configuration(stage.tensor, choice.configuration)
                for choice in stage.choices
            ]
            again = sum(entry is not None and entry.recomputes for entry in chosen)
            parts = verdict.components
            rows.append(
                [
                    *(str(i), str(len(chosen)), stage.choices[0].layer),
                    *(str(stage.data), str(stage.tensor), str(again), str(parts[f"in flight {i}"])),
                    size_text(problem.units, parts[f"memory {i}"]),
                    time_text(problem.units, parts[f"seconds {i}"]),
                ]
            )
        return rows

    def plan_rows(
        self, problem: HybridProblem | None, plan: HybridPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield layers in the order of their stages, with degrees and configurations."""
        for number, stage in enumerate(plan.stages):
            for choice in stage.choices:
                row: dict[str, Any] = {"layer": choice.layer, "stage": number}
                row |= {"data": stage.data, "tensor": stage.tensor, "devices": stage.devices}
                row["configuration"] = choice.configuration
                if problem is not None:
                    layer = problem.by_name.get(choice.layer)
                    configuration = layer and layer.configuration(
                        stage.tensor, choice.configuration
                    )
                    row["seconds"] = float(configuration.seconds) if configuration else None
                    row["recomputes"] = configuration.recomputes if configuration else None
                yield row

    def panels(self, problem: HybridProblem, plan: HybridPlan) -> Sequence[Panel]:
        """Return time and memory of every stage, under the limits that the plan was made for."""
        from .draw import stages_panels

        return stages_panels(_as_planned(problem, plan), plan)

    def names_in_plan(self, plan: HybridPlan) -> Sequence[str]:
        """Return the layers that it has in a stage."""
        return [choice.layer for stage in plan.stages for choice in stage.choices]

    def reasons(self) -> Reasons[HybridProblem, HybridPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import HybridReasons

        return HybridReasons()

    def obstacle(self, problem: HybridProblem, budget: Budget) -> str | None:
        """Return ``None``: only the whole search can prove infeasibility."""
        return None

    def bounds(
        self, problem: HybridProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield bounds of the exact search, until the budget ends."""
        from .strategy import search_bounds

        return search_bounds(problem, budget)

    def strategies(self) -> Sequence[type[Strategy[HybridProblem, HybridPlan]]]:
        """Return the exact search."""
        from .strategy import HybridStrategy

        return (HybridStrategy,)


def _as_planned(problem: HybridProblem, plan: HybridPlan) -> HybridProblem:
    """Return the problem under the limits that a plan was made for, if it names them."""
    if plan.limits is None or list(plan.limits.findings()):
        return problem
    return problem.with_limits(plan.limits)


def _read(document: Document, changes: Mapping[str, Any]) -> HybridProblem:
    from . import piper

    problem = piper.read(document)
    limits: dict[str, Any] = {
        limit: changes[change.name] for limit, change in AMOUNTS.items() if change.name in changes
    }
    switches: dict[str, Any] = {
        change.name.removeprefix("no_"): False for change in SWITCHES if change.name in changes
    }
    return problem.with_limits(replace(problem.limits, **limits, **switches))


def limits_text(problem: HybridProblem) -> str:
    """Write the limits of a problem in words."""
    limits = problem.limits
    memory, rate = (
        size_text(problem.units, int(number))
        for number in (limits.memory_bytes, limits.bandwidth_bytes_per_s)
    )
    off = [name for name in ("data", "tensor", "recomputation") if not getattr(limits, name)]
    text = f"{limits.devices} devices of {memory}, {rate}/s, {limits.micro_batches} micro-batches"
    return text + (f", without {', '.join(off)}" if off else "")


KIND = Hybrid()
