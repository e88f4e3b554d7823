"""The best deployment: every one of the space is valued, so the best is proved within it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from milp_plan.core.budget import Budget
from milp_plan.kinds.training.result import KEPT, SpaceResult
from milp_plan.kinds.training.space import allowed, degree_misfits, divisors, expert_degrees
from milp_plan.kinds.training.step import excess_of

from .costs import Figures, ServingCosts, ServingMemory
from .problem import Deployment, Objective, Phase, ServingProblem

MOST_REQUESTS = 1 << 16
"""Requests in flight on a replica."""

MOST_PROMPTS, PASS_TOKENS = 64, 32_768
"""Prompts computed at once, and tokens of a pass beyond which it has one prompt."""

MISSES = 3
"""Deployments that are listed because memory does not suffice."""

NOT_CONSIDERED = (
    "tensor parallelism over more than one node, context parallelism",
    f"prompts at once other than powers of two up to {MOST_PROMPTS}",
    "requests in flight other than powers of two, the most that memory and limits allow, and those "
    "asked",
    "prompts computed in chunks beside decoding",
    "devices of their own for each phase",
    "experts visited unevenly",
    "weights of fewer than 8 bits",
    "speculative decoding, prefixes in common",
    "stages other than even",
)
"""What no plan uses."""


@dataclass(frozen=True, slots=True)
class ServingCandidate:
    """A deployment with its figures and memory of each stage."""

    deployment: Deployment
    figures: Figures
    memory: tuple[ServingMemory, ...]


@dataclass(frozen=True, slots=True)
class ServingMiss:
    """A deployment that does not fit, even with the fewest requests, and by how many bytes."""

    deployment: Deployment
    excess_bytes: int
    stage: int


@dataclass
class ServingResult(SpaceResult[ServingCandidate, ServingMiss]):
    """Result of a search of deployments.

    Parameters
    ----------
    best, bound_ns, considered, misses, finished, interrupted
        As of :class:`~milp_plan.kinds.training.result.SpaceResult`.
    late
        Deployments that were valued and break a limit on times.
    """

    late: int = 0


class Search:
    """Values every deployment of the space; the result so far is available at any time.

    Parameters
    ----------
    problem, costs
        What is planned, and by which costs.
    budget
        When to stop.
    on_better
        Called with every new best deployment, and 0, the bound so far.
    """

    def __init__(
        self,
        problem: ServingProblem,
        costs: ServingCosts,
        budget: Budget,
        on_better: Callable[[ServingCandidate, int], object] = lambda _candidate, _bound: None,
    ) -> None:
        self.problem, self.costs, self.budget, self.on_better = problem, costs, budget, on_better
        self.found = ServingResult()

    def run(self) -> ServingResult:
        """Search until the end, the end of the budget or an interruption, which keeps the best."""
        found = self.found
        try:
            found.finished = self.value_all()
            if found.finished and found.best:
                found.bound_ns = found.best[0].figures.value
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            found.misses = sorted(found.misses, key=lambda miss: miss.excess_bytes)[:MISSES]
        return found

    def value_all(self) -> bool:
        """Value every deployment; return whether time sufficed."""
        for shape in shapes(self.problem):
            if self.problem.why_not(_with_requests(self.problem, shape)) is not None:
                continue
            if self.budget.over:
                return False
            candidate = min(self.sized(shape), key=_rank, default=None)
            if candidate is not None:
                best = self.found.best
                best[:] = sorted([*best, candidate], key=_rank)[:KEPT]
                if best[0] is candidate:
                    self.on_better(candidate, 0)
        return True

    def sized(self, shape: Deployment) -> Iterator[ServingCandidate]:
        """List what fits with these degrees, for every number of requests and prompts."""
        problem, costs, found = self.problem, self.costs, self.found
        least = _with_requests(problem, shape)
        excess, stage = _excess(problem, least, costs.memory(least))
        if excess > 0:
            found.considered += 1
            found.misses.append(ServingMiss(least, excess, stage))
            return
        free = problem.requests is None and problem.objective is Objective.THROUGHPUT
        sizes = [least.requests]
        if free and "requests" not in problem.fixed:
            sizes = _sizes(problem, costs, least)
        for requests in sizes:
            for prompts in _prompts(problem, requests):
                sized = replace(shape, requests=requests, prompts=prompts)
                memory = costs.memory(sized)
                if _excess(problem, sized, memory)[0] > 0:
                    continue
                found.considered += 1
                figures = costs.figures(sized)
                if _in_time(problem, figures):
                    yield ServingCandidate(sized, figures, memory)
                else:
                    found.late += 1


def why_empty(problem: ServingProblem) -> str | None:
    """Say why the fixed fields leave no degrees that can run; ``None`` if they leave some."""
    misfits = "; ".join(degree_misfits(problem.fixed, problem.cluster.devices))
    reason = misfits or "the fixed fields leave no degrees"
    for number, shape in enumerate(shapes(problem)):
        why = problem.why_not(_with_requests(problem, shape))
        if why is None:
            return None
        reason = reason if number else why
    return reason


def _in_time(problem: ServingProblem, figures: Figures) -> bool:
    limits = (
        (problem.first_token_ns, figures.first_token_ns),
        (problem.token_ns, figures.token_ns),
    )
    return all(limit is None or time is None or time <= limit for limit, time in limits)


def _excess(
    problem: ServingProblem, d: Deployment, memory: tuple[ServingMemory, ...]
) -> tuple[int, int]:
    return excess_of(problem, d, [use.total for use in memory])


def _rank(candidate: ServingCandidate) -> tuple[float, ...]:
    """Value, then tokens per second, then the least of everything."""
    d, figures = candidate.deployment, candidate.figures
    simple = (d.pipeline, d.expert, d.tensor, d.requests, d.prompts)
    return (figures.value, -figures.tokens_per_s, *simple)


def shapes(problem: ServingProblem) -> Iterator[Deployment]:
    """List degrees with the fixed values; requests and prompts are 1."""
    fixed, devices = problem.fixed, problem.cluster.devices
    node = min(group.node_devices for group in problem.cluster.groups)
    for tensor in allowed(fixed, "tensor", divisors(node)):
        for pipeline in allowed(fixed, "pipeline", divisors(devices // tensor or 1)):
            data = devices // tensor // pipeline
            if data * tensor * pipeline != devices or fixed.get("data", data) != data:
                continue
            for experts in expert_degrees(problem.architecture, fixed, tensor, tensor * data):
                yield Deployment(tensor, *experts, pipeline, data)


def _with_requests(problem: ServingProblem, shape: Deployment) -> Deployment:
    """Return the shape with the fewest requests that it may have."""
    prompts = problem.fixed.get("prompts", 1)
    requests = max(prompts, -(-(problem.requests or 1) // shape.data))
    requests = problem.fixed.get("requests", requests)
    return replace(shape, requests=requests, prompts=prompts)


def _sizes(problem: ServingProblem, costs: ServingCosts, least: Deployment) -> list[int]:
    """Powers of two, the most requests that memory allows, and the most that a limit allows."""

    def fits(requests: int) -> bool:
        sized = replace(least, requests=requests)
        return _excess(problem, sized, costs.memory(sized))[0] <= 0

    def in_time(requests: int) -> bool:
        return _in_time(problem, costs.figures(replace(least, requests=requests)))

    most = MOST_PROMPTS if problem.phase is Phase.PREFILL else MOST_REQUESTS
    most = _most(fits, least.requests, max(most, least.requests))
    sizes = {least.requests, most}
    if problem.token_ns is not None:
        sizes.add(_most(in_time, least.requests, most))
    power = 1
    while power < most:
        sizes |= {power} if power >= least.requests else set()
        power *= 2
    return sorted(sizes)


def _most(allowed: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest number that is allowed, where all smaller ones are."""
    if allowed(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def _prompts(problem: ServingProblem, requests: int) -> list[int]:
    if "prompts" in problem.fixed:
        return [problem.fixed["prompts"]]
    if problem.phase is Phase.DECODE:
        return [1]
    if problem.objective is Objective.LATENCY and problem.requests is None:
        return [1]
    numbers = [1]
    while 2 * numbers[-1] <= min(requests, MOST_PROMPTS):
        if 2 * numbers[-1] * problem.prompt > PASS_TOKENS:
            break
        numbers.append(2 * numbers[-1])
    return numbers
