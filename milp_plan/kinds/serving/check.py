"""The checker of serving plans: every rule of ``docs/laws.md``, from the deployment alone."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Counts, Verdict, Violation
from milp_plan.kinds.training.rules import beyond_memory, other_than_fixed

from .costs import ServingCosts
from .problem import Deployment, Objective, Phase, ServingPlan, ServingProblem


def verify(problem: ServingProblem, plan: ServingPlan, costs: ServingCosts) -> Verdict:
    """Check a plan against every law and recompute its value; never raises.

    Returns
    -------
    Verdict
        Value: nanoseconds of a request, or of the cluster for a million tokens; ``None`` if the
        deployment cannot run. Components: times of the first and of a further token, and the
        memory of each pipeline stage.
    """
    name, deployment = objective_name(problem), plan.deployment
    broken = [*misattributed(problem, plan), *other_than_fixed(problem, deployment)]
    for reason in problem.degree_reasons(deployment):
        broken.append(Violation("degrees", (), reason))
    for reason in problem.request_reasons(deployment):
        broken.append(Violation("requests", (), reason))
    if any(violation.rule in ("degrees", "requests") for violation in broken):
        return Verdict(tuple(broken), name, None)
    peaks = [use.total for use in costs.memory(deployment)]
    broken += beyond_memory(problem, deployment, peaks)
    first, token, value = _times(problem, deployment, costs)
    broken += _late("the first token", first, problem.first_token_ns)
    broken += _late("a further token", token, problem.token_ns)
    what = f"a {name.replace('_', ' ')}"
    broken += overclaimed(problem, plan, value, what, Counts.TIME)
    parts = {"first_token": first or 0, "token": token or 0}
    parts |= {f"peak_memory stage {stage}": peak for stage, peak in enumerate(peaks)}
    return Verdict(tuple(broken), name, value, parts)


def objective_name(problem: ServingProblem) -> str:
    """Return what the value of a problem's plans is."""
    if problem.objective is Objective.THROUGHPUT:
        return "time_per_million_tokens"
    return {Phase.BOTH: "request", Phase.PREFILL: "first_token", Phase.DECODE: "token"}[
        problem.phase
    ]


def _times(
    problem: ServingProblem, d: Deployment, costs: ServingCosts
) -> tuple[int | None, int | None, int]:
    """Return times of the first token and of a further one, and the value."""
    prefill, decode = costs.prefill(d), costs.decode(d)
    first = token = None
    rounds: list[tuple[int, int]] = []  # numbers of passes, and the time from one to the next
    if prefill is not None:
        first = sum(prefill.stages)
        rounds.append((-(-d.requests // d.prompts), max(prefill.stages)))
    if decode is not None:
        in_turn = min(d.requests, d.pipeline) * max(decode.stages)
        token = max(sum(decode.stages), in_turn)
        made_by_prefill = 0 if prefill is None else 1
        rounds.append((problem.output - made_by_prefill, token))
    if problem.objective is Objective.THROUGHPUT:
        busy = sum(number * time for number, time in rounds)
        each = problem.prompt if problem.phase is Phase.PREFILL else problem.output
        tokens = each * d.requests * d.data
        return first, token, (busy * 10**6 + tokens - 1) // tokens
    if problem.phase is Phase.DECODE:
        return first, token, token or 0
    return first, token, (first or 0) + (token or 0) * (problem.output - 1)


def _late(what: str, time: int | None, limit: int | None) -> Iterator[Violation]:
    if limit is not None and time is not None and time > limit:
        text = f"{what} takes longer than its limit"
        yield Violation("time", (what,), text, time, limit, Counts.TIME)
