"""A lower bound on every deployment, from the work of each width alone."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.training.collectives import Traffic
from milp_plan.kinds.training.costs import NANO
from milp_plan.kinds.training.space import divisors, expert_degrees

from .costs import MEGA, Pace, ServingCosts
from .problem import Deployment, Objective, Phase, ServingProblem


def width_bound(problem: ServingProblem, budget: Budget) -> Bound | None:
    """Return the least value that any width allows; ``None`` where time does not suffice.

    A width is a tensor degree with a degree and a split of experts. What a block computes, reads
    and sends in a pass depends on the width and the sequences of the pass alone, so the stages of a
    pipeline together take what all blocks take, each on the class that is the fastest for it.

    - Latency: a first token takes a pass of one prompt at least. A further token takes a decode
      pass. Of ``R`` requests on ``N`` devices a group of a replica has ``R tensor / N`` at least,
      since there are ``N / tensor`` stages in the cluster and at most a group for each.
    - Throughput: the slowest of ``p`` stages takes a part of ``1/p`` of a pass at least. So a
      prompt takes the cluster ``pass(q) / q`` over ``N / tensor``, and a token likewise; passes
      grow by less than their sequences, so the most sequences that memory allows are the best.

    Tokens that tensor ranks share out to copies of experts count in fractions here.

    A pass is rounded to nanoseconds once a stage, and there are at most as many as blocks.
    """
    costs, values = ServingCosts(problem), []
    for width in widths(problem):
        if budget.over:
            return None
        values.append(_least_value(costs, width))
    why = "what all blocks compute, read and send in a pass, whatever the pipeline and replicas"
    return Bound("width", min(values), why) if values else None


def widths(problem: ServingProblem) -> Iterator[Deployment]:
    """List every width that a plan may have, with one stage on all devices."""
    devices, fixed, model = problem.cluster.devices, problem.fixed, problem.architecture
    for tensor in divisors(devices):
        for experts in expert_degrees(model, fixed, tensor, devices):
            d = Deployment(tensor, *experts, 1, devices // tensor)
            shape = d.configuration(1, problem.precision)
            if fixed.get("tensor", tensor) == tensor and not any(shape.width_reasons(model)):
                yield d


def _least_value(costs: ServingCosts, width: Deployment) -> int:
    """Return the least value of the deployments of a width."""
    p, stages = costs.problem, width.data  # stages of all replicas together
    first = token = 0
    if p.objective is Objective.LATENCY:
        if p.phase is not Phase.DECODE:
            first = _pass_ns(costs, width, 1, p.prompt, 0)
        if p.further_tokens:
            sequences = -(-(p.requests or 1) // stages)
            token = _pass_ns(costs, width, sequences, 1, p.attended)
        return token if p.phase is Phase.DECODE else first + p.further_tokens * token
    if p.phase is not Phase.DECODE:
        most = _most_prompts(costs)
        first = _pass_ns(costs, width, most, p.prompt, 0) * MEGA // (most * stages)
    if p.further_tokens:
        most = _most_requests(costs, width)
        passed = _pass_ns(costs, width, most, 1, p.attended)
        token = p.further_tokens * passed * MEGA // (most * stages)
    return (first + token) // (p.prompt if p.phase is Phase.PREFILL else p.output)


def _pass_ns(
    costs: ServingCosts, width: Deployment, sequences: int, tokens: int, context: int
) -> int:
    """Return what a pass takes at least, over all stages."""
    model = costs.model
    counter = costs.counter(width, sequences, tokens, context, whole_tokens=False)
    blocks = len(model.blocks)
    parts = [(counter.pieces(block), count) for block, count in model.kinds(((0, blocks),))]
    for work, traffic in (counter.first(), counter.last()):
        parts.append((([work], traffic, Traffic()), 1))
    seconds = 0.0
    for pieces, times in parts:
        paces = [Pace(group, clock, counter) for group, clock in costs.clocks]
        for pace in paces:
            pace.add(*pieces, times=times)
        seconds += min(sum(pace.parts) for pace in paces)
    return max(0, int(seconds * NANO) - blocks)


def _most_prompts(costs: ServingCosts) -> int:
    """Return the most prompts of a pass: each token has two residuals on every device."""
    hidden = min(block.hidden for block in costs.model.blocks)
    size = 2 * hidden * costs.model.precision_bytes * costs.problem.prompt
    return max(1, _room(costs.problem) // size)


def _most_requests(costs: ServingCosts, width: Deployment) -> int:
    """Return the most requests of a group: the caches of all groups lie beside the weights."""
    (use,) = costs.memory(width)
    stages = min(width.data, len(costs.model.blocks))
    room = _room(costs.problem) - use.weights // stages
    return max(1, room // max(1, use.cache - 1) + 1)


def _room(problem: ServingProblem) -> int:
    return max(problem.cluster.memories) - problem.reserve_bytes
