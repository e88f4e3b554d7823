"""The best deployment: every one of the space is valued, so the best is proved within it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from milp_plan.core.budget import Budget
from milp_plan.kinds.training.blocks import Moe
from milp_plan.kinds.training.space import divisors
from milp_plan.kinds.training.step import excess_of

from .check import late
from .costs import Figures, ServingCosts, ServingMemory
from .problem import Deployment, Objective, Phase, ServingProblem

MOST_REQUESTS = 1 << 16
"""Requests in flight on a replica."""

MOST_PROMPTS, PASS_TOKENS = 64, 32_768
"""Prompts computed at once, and tokens of a pass beyond which it has one prompt."""

KEPT, MISSES = 3, 3
"""Deployments that are kept, and those listed because memory does not suffice."""

NOT_CONSIDERED = (
    "tensor parallelism over more than one node",
    f"prompts at once other than powers of two up to {MOST_PROMPTS}",
    "requests in flight other than powers of two, the most that memory and limits allow, and those "
    "asked",
    "prompts computed in chunks beside decoding",
    "devices of their own for each phase",
    "experts visited unevenly",
    "speculative decoding, prefixes in common",
    "stages other than even",
)
"""What no plan uses."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment with its figures and memory of each stage."""

    deployment: Deployment
    figures: Figures
    memory: tuple[ServingMemory, ...]


@dataclass(frozen=True, slots=True)
class Miss:
    """A deployment that does not fit, even with the fewest requests, and by how many bytes."""

    deployment: Deployment
    excess_bytes: int
    stage: int


@dataclass
class ServingResult:
    """Result of a search.

    Parameters
    ----------
    best
        Up to :data:`KEPT` deployments of different degrees, the best first.
    misses
        Degrees that do not fit, the least excess first.
    considered, late
        Deployments that were valued, and those of them that break a limit on times.
    why_empty
        Why no degrees can run; ``None`` if some can.
    finished
        Whether the whole space was valued.
    interrupted
        Whether an interruption ended the search.
    """

    best: list[Candidate] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    considered: int = 0
    late: int = 0
    why_empty: str | None = None
    finished: bool = True
    interrupted: bool = False


def search(costs: ServingCosts, fixed: Mapping[str, int], budget: Budget) -> ServingResult:
    """Return the best deployments, of those that have the fixed fields.

    An interruption ends the search with those that were valued until then.
    """
    found = ServingResult(why_empty="the fixed fields leave no degrees")
    best: dict[Deployment, Candidate] = {}
    try:
        _value_all(costs, fixed, budget, found, best)
    except KeyboardInterrupt:
        found.finished, found.interrupted = False, True
    found.best = sorted(best.values(), key=_rank)[:KEPT]
    found.misses = sorted(found.misses, key=lambda miss: miss.excess_bytes)[:MISSES]
    return found


def _value_all(
    costs: ServingCosts,
    fixed: Mapping[str, int],
    budget: Budget,
    found: ServingResult,
    best: dict[Deployment, Candidate],
) -> None:
    """Value every deployment of the space, and keep the best of each shape."""
    problem, reason = costs.problem, None
    for shape in _shapes(problem, fixed):
        why = problem.why_not(_with_requests(problem, shape, fixed))
        if why is not None:
            reason = reason or why
            continue
        found.why_empty = None
        if budget.over:
            found.finished = False
            break
        for candidate in _sized(problem, costs, shape, fixed, found):
            kept = best.get(shape)
            if kept is None or _rank(candidate) < _rank(kept):
                best[shape] = candidate
    if found.why_empty and reason:
        found.why_empty = reason


def _rank(candidate: Candidate) -> tuple[float, ...]:
    """Value, then tokens per second, then the least of everything."""
    d, figures = candidate.deployment, candidate.figures
    simple = (d.pipeline, d.expert, d.tensor, d.requests, d.prompts)
    return (figures.value, -figures.tokens_per_s, *simple)


def _shapes(problem: ServingProblem, fixed: Mapping[str, int]) -> Iterator[Deployment]:
    """List degrees; requests and prompts are 1."""
    devices = problem.cluster.devices
    node = min(group.node_devices for group in problem.cluster.groups)
    for tensor in _values("tensor", divisors(node), fixed):
        if tensor < 1 or devices % tensor:
            continue
        for pipeline in _values("pipeline", divisors(devices // tensor), fixed):
            if pipeline < 1 or devices // tensor % pipeline:
                continue
            data = devices // tensor // pipeline
            if fixed.get("data", data) != data:
                continue
            for expert, split in _experts(problem, tensor, tensor * data):
                if fixed.get("expert", expert) != expert:
                    continue
                if fixed.get("expert_tensor", split) != split:
                    continue
                yield Deployment(tensor, expert, split, pipeline, data)


def _values(name: str, usual: tuple[int, ...], fixed: Mapping[str, int]) -> tuple[int, ...]:
    return (fixed[name],) if name in fixed else usual


def _experts(problem: ServingProblem, tensor: int, stage: int) -> Iterator[tuple[int, int]]:
    """Degree of experts, and of the split of each."""
    runs = problem.architecture.runs
    parts = [b.feed_forward for b, _ in runs if isinstance(b.feed_forward, Moe)]
    if not parts:
        yield 1, 1
        return
    for split in sorted({1, tensor}):
        yield from ((d, split) for d in divisors(parts[0].experts) if stage % (d * split) == 0)


def _with_requests(
    problem: ServingProblem, shape: Deployment, fixed: Mapping[str, int]
) -> Deployment:
    """Return the shape with the fewest requests that it may have."""
    asked = problem.requests or 1
    requests = fixed.get("requests", -(-asked // shape.data))
    prompts = fixed.get("prompts", 1)
    return replace(shape, requests=max(requests, prompts), prompts=prompts)


def _sized(
    problem: ServingProblem,
    costs: ServingCosts,
    shape: Deployment,
    fixed: Mapping[str, int],
    found: ServingResult,
) -> Iterator[Candidate]:
    """List what fits with these degrees, for every number of requests and prompts."""
    least = _with_requests(problem, shape, fixed)
    excess, stage = excess_of(problem, least, _totals(costs.memory(least)))
    if excess > 0:
        found.considered += 1
        found.misses.append(Miss(least, excess, stage))
        return
    free = problem.requests is None and problem.objective is Objective.THROUGHPUT
    sizes = [least.requests]
    if free and "requests" not in fixed:
        sizes = _sizes(problem, costs, least)
    for requests in sizes:
        for prompts in _prompts(problem, requests, fixed):
            sized = replace(shape, requests=requests, prompts=prompts)
            memory = costs.memory(sized)
            if excess_of(problem, sized, _totals(memory))[0] > 0:
                continue
            found.considered += 1
            figures = costs.figures(sized)
            if any(late(problem, figures)):
                found.late += 1
            else:
                yield Candidate(sized, figures, memory)


def _sizes(problem: ServingProblem, costs: ServingCosts, least: Deployment) -> list[int]:
    """Powers of two, the most requests that memory allows, and the most that a limit allows."""

    def fits(requests: int) -> bool:
        sized = replace(least, requests=requests)
        return excess_of(problem, sized, _totals(costs.memory(sized)))[0] <= 0

    def in_time(requests: int) -> bool:
        return not any(late(problem, costs.figures(replace(least, requests=requests))))

    most = MOST_PROMPTS if problem.phase is Phase.PREFILL else MOST_REQUESTS
    most = _most(fits, least.requests, most)
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


def _prompts(problem: ServingProblem, requests: int, fixed: Mapping[str, int]) -> list[int]:
    if "prompts" in fixed:
        return [fixed["prompts"]]
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


def _totals(memory: tuple[ServingMemory, ...]) -> list[int]:
    return [use.total for use in memory]
