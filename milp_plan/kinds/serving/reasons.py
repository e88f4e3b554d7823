"""Reasons of serving: fixed fields, limits on times, memory of devices, and how busy stages are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from milp_plan.core import Counts, Verdict
from milp_plan.kinds.training.reasons import ModelReasons
from milp_plan.run.reasons.base import Usage, Why, largest_first, used_up

from .costs import ServingCosts
from .problem import ServingPlan, ServingProblem

LIMITS = {
    "requests asked": "requests",
    "limit on the first token": "first_token_ns",
    "limit on a further token": "token_ns",
}
"""Name of a part -> field of a problem, ``None`` without it."""


class ServingReasons(ModelReasons[ServingProblem, ServingPlan]):
    """Reasons of :class:`milp_plan.kinds.serving.problem.ServingProblem`."""

    noun = "conditions"
    member = "deployment"

    def parts(self, problem: ServingProblem) -> tuple[str, ...]:
        """Fixed fields, and limits that there are."""
        limits = (name for name, field in LIMITS.items() if getattr(problem, field) is not None)
        return (*super().parts(problem), *limits)

    def keep(self, problem: ServingProblem, names: Collection[str]) -> ServingProblem:
        """Leave the others out: every plan stays one, with the same value."""
        left_out: dict[str, Any] = {
            field: None for name, field in LIMITS.items() if name not in names
        }
        return replace(super().keep(problem, names), **left_out)

    def why(self, problem: ServingProblem, plan: ServingPlan, verdict: Verdict) -> Why:
        """How busy stages are while they decode (or prefill), and how full their devices."""
        costs, d = ServingCosts(problem), plan.deployment
        decode, prefill = costs.decode(d), costs.prefill(d)
        passed, groups = (decode, d.groups) if decode is not None else (prefill, 1)
        assert passed is not None
        whole = max(passed.total, groups * max(passed.stages))
        usage = (
            Usage(f"stage {stage}", "stage", groups * time, whole, Counts.TIME)
            for stage, time in enumerate(passed.stages)
        )
        limits = self.fullest(problem, d, [use.total for use in costs.memory(d)])
        times = (
            ("first token", verdict.components["first_token"], problem.first_token_ns),
            ("further token", verdict.components["token"], problem.token_ns),
        )
        limits += tuple(
            Usage(f"limit on the {name}", "time", time, limit, Counts.TIME)
            for name, time, limit in times
            if limit is not None
        )
        return Why((), largest_first(usage), limits, used_up(limits))


REASONS = ServingReasons()
