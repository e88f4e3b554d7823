"""Hybrid parallelism planned, checked and recorded."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from milp_plan.backends import Stop
from milp_plan.check.hybrid import OBJECTIVE, verify_hybrid
from milp_plan.core import Verdict
from milp_plan.core.budget import now
from milp_plan.core.gap import relative_gap
from milp_plan.hybrid import HybridPlan, HybridProblem
from milp_plan.io import hybrid_plan_to_json, write_document
from milp_plan.planners.hybrid import MARGIN, HybridAnswer, plan_exactly, plan_uniformly

from .record import LONGEST_NAME, RECORD_VERSION, versions

BOUND = "exact search"
UNIFORM = "uniform split"
INFEASIBLE = "every split with every choice of degrees and configurations was searched"


@dataclass(frozen=True)
class HybridOutcome:
    """What a run found; values in ticks of the problem.

    Parameters
    ----------
    plan, verdict, value
        The best plan with its claims, what the checker says of it, and its time per sample.
    bound
        On the time per sample of every plan.
    proved
        Whether no plan is better by more than a billionth.
    infeasible_because
        Reason, when it is proved that there is no plan.
    uniform
        Value of the uniform split; ``None``: none fits, or it was not asked for.
    """

    problem: HybridProblem
    answer: HybridAnswer
    plan: HybridPlan | None
    verdict: Verdict | None
    value: int | None
    bound: int
    proved: bool
    infeasible_because: str | None
    disputed_because: str
    uniform: int | None
    stop: Stop
    phases: dict[str, float]
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound, ``None`` without a plan."""
        return relative_gap(self.value, self.bound)


def solve_hybrid(
    problem: HybridProblem,
    time_limit_s: float = 60.0,
    on_news: Callable[[float, float], None] | None = None,
    *,
    baseline: bool = True,
) -> HybridOutcome:
    """Plan a problem, and compare with the uniform split.

    Parameters
    ----------
    problem
        The problem, under the limits asked for.
    time_limit_s
        Of the exact search.
    on_news
        Called with the seconds per sample of the plan (infinite: none) and the bound.
    baseline
        Whether to make the uniform split as well.
    """
    began = now()
    answer = plan_exactly(problem, time_limit_s, on_news)
    phases = {"solve": now() - began}
    uniform = None
    if baseline:
        began = now()
        uniform = uniform_value(problem)
        phases["baseline"] = now() - began
    scale = problem.units.time_scale
    bound = int(Fraction(answer.bound) * scale) if answer.bound < inf else 0
    plan, verdict, value, disputed = None, None, None, ""
    if answer.plan is not None:
        verdict = verify_hybrid(problem, answer.plan)
        value = verdict.value
        plan = answer.plan if value is None else answer.plan.claimed(problem, value)
        disputed = _dispute(answer, verdict, scale)
    proved = answer.complete and plan is not None and not disputed
    stop = Stop.PROVED if proved else Stop.TIME_LIMIT
    if answer.infeasible:
        stop = Stop.INFEASIBLE
    elif answer.interrupted:
        stop = Stop.INTERRUPTED
    outcome = HybridOutcome(
        problem,
        answer,
        plan,
        verdict,
        value,
        bound,
        proved,
        INFEASIBLE if answer.infeasible else None,
        disputed,
        uniform,
        stop,
        phases,
    )
    outcome.record.update(_record(outcome, time_limit_s))
    return outcome


def uniform_value(problem: HybridProblem) -> int | None:
    """Value of the uniform split in ticks, as the checker computes it; ``None`` if none fits."""
    found = plan_uniformly(problem)
    if found is None:
        return None
    verdict = verify_hybrid(problem, found[0])
    return verdict.value if verdict.ok else None


def write_hybrid_record(outcome: HybridOutcome, folder: Path = Path("results/runs")) -> Path:
    """Write ``<key>.json``, and the plan beside it as ``<key>.plan.json``; return the former."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.record['key']}.json"
    if outcome.plan is not None:
        text = hybrid_plan_to_json(outcome.plan)
        write_document(folder / f"{outcome.record['key']}.plan.json", text)
    write_document(path, json.dumps(outcome.record, indent=1).encode() + b"\n")
    return path


def _dispute(answer: HybridAnswer, verdict: Verdict, scale: int) -> str:
    if verdict.value is None or not verdict.ok:
        return "the plan fails the check"
    seconds = Fraction(verdict.value, scale)
    if abs(seconds - Fraction(answer.seconds)) > Fraction(MARGIN) * seconds:
        return f"the planner says {answer.seconds} s, the checker {float(seconds)} s"
    if seconds < Fraction(answer.bound):
        return f"the plan takes {float(seconds)} s, below the bound of {answer.bound} s"
    return ""


def _record(outcome: HybridOutcome, time_limit_s: float) -> dict[str, Any]:
    problem, answer = outcome.problem, outcome.answer
    content = [problem.fingerprint, time_limit_s, versions()]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    name = re.sub(r"[^\w.+-]", "_", problem.name)  # it becomes the name of a file
    verdict = "no plan"
    if outcome.verdict is not None:
        verdict = "ok" if outcome.verdict.ok else "violated"
    limits = problem.limits
    return {
        "record": RECORD_VERSION,
        "key": f"{name[:LONGEST_NAME]}-hybrid-{digest[:12]}",
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": OBJECTIVE,
        "units": {
            "time": problem.units.time,
            "size": problem.units.size,
            "time_scale": problem.units.time_scale,
        },
        "limits": {
            "devices": limits.devices,
            "memory_bytes": float(limits.memory_bytes),
            "bandwidth_bytes_per_s": float(limits.bandwidth_bytes_per_s),
            "micro_batches": limits.micro_batches,
            "data": limits.data,
            "tensor": limits.tensor,
            "recomputation": limits.recomputation,
        },
        "operators": len(problem.layers),
        "devices": limits.devices,
        "value": outcome.value,
        "bound": outcome.bound,
        "bound_name": BOUND,
        "gap": outcome.gap,
        "gap_asked": MARGIN,
        "proved": outcome.proved,
        "stop": str(outcome.stop),
        "verdict": "DISPUTED" if outcome.disputed_because else verdict,
        "disputed_because": outcome.disputed_because or None,
        "infeasible_because": outcome.infeasible_because,
        "planner": None if outcome.plan is None else outcome.plan.planner,
        "baselines": {UNIFORM: outcome.uniform},
        "best_baseline": outcome.uniform,
        "baseline_name": None if outcome.uniform is None else UNIFORM,
        "down_sets": answer.down_sets,
        "sweeps": answer.sweeps,
        "seconds": round(answer.elapsed_s, 3),
        "phases": {name: round(seconds, 4) for name, seconds in outcome.phases.items()},
        "settings": {"time_limit_s": time_limit_s},
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "trace": [
            {
                "seconds": round(elapsed, 3),
                "incumbent_s": None if value == inf else value,
                "bound_s": bound,
            }
            for elapsed, value, bound in answer.trace
        ],
    }
