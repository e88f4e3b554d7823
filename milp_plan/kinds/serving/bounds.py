"""A lower bound on every deployment, from the work of each width alone."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.training.collectives import Traffic
from milp_plan.kinds.training.costs import NANO
from milp_plan.kinds.training.space import divisors

from .costs import MEGA, Pace, ServingCosts
from .problem import Deployment, Objective, Phase, ServingProblem
from .search import expert_degrees


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

    A pass is rounded to nanoseconds once a stage, and there are at most as many as blocks.
    """
    costs = ServingCosts(problem)
    least = None
    for width in widths(problem):
        if budget.over:
            return None
        value = _Width(costs, width).value()
        least = value if least is None else min(least, value)
    why = "what all blocks compute, read and send in a pass, whatever the pipeline and replicas"
    return None if least is None else Bound("width", least, why)


def widths(problem: ServingProblem) -> Iterator[Deployment]:
    """List every width that a plan may have, with one stage."""
    devices, fixed = problem.cluster.devices, problem.fixed
    for tensor in divisors(devices):
        for expert, split in expert_degrees(problem, tensor, devices):
            d = Deployment(tensor, expert, split, 1, devices // tensor)
            names = ("tensor", "expert", "expert_tensor")
            if all(fixed.get(name, getattr(d, name)) == getattr(d, name) for name in names):
                shape = d.configuration(1, problem.precision)
                if next(shape.width_reasons(problem.architecture), None) is None:
                    yield d


class _Width:
    """Bounds on the deployments of one width."""

    def __init__(self, costs: ServingCosts, width: Deployment) -> None:
        self.costs, self.problem, self.width = costs, costs.problem, width
        self.stages = width.data  # of all replicas together

    def value(self) -> int:
        """Return the least value."""
        p = self.problem
        prefills, decodes = p.phase is not Phase.DECODE, p.phase is not Phase.PREFILL
        if p.objective is Objective.LATENCY:
            sequences = -(-(p.requests or 1) // self.stages)
            token = self.pass_ns(sequences, 1, p.attended) if decodes and p.further_tokens else 0
            first = self.pass_ns(1, p.prompt, 0) if prefills else 0
            return token if p.phase is Phase.DECODE else first + p.further_tokens * token
        total = 0
        if prefills:
            most = self.most_prompts()
            total += self.pass_ns(most, p.prompt, 0) * MEGA // (most * self.stages)
        if decodes and p.further_tokens:
            most = self.most_requests()
            passed = self.pass_ns(most, 1, p.attended)
            total += p.further_tokens * passed * MEGA // (most * self.stages)
        return total // (p.prompt if p.phase is Phase.PREFILL else p.output)

    def pass_ns(self, sequences: int, tokens: int, context: int) -> int:
        """Return what a pass takes at least, over all stages."""
        costs, model, groups = self.costs, self.costs.model, self.problem.cluster.groups
        counter = costs.counter(self.width, sequences, tokens, context)
        blocks = len(model.blocks)
        parts = [(counter.pieces(block), n) for block, n in model.kinds(((0, blocks),))]
        for work, traffic in (counter.first(), counter.last()):
            parts.append((([work], traffic, Traffic()), 1))
        seconds = 0.0
        for pieces, times in parts:
            paces = [Pace(group, costs.efficiency, counter) for group in groups]
            for pace in paces:
                pace.add(*pieces, times=times)
            seconds += min(sum(pace.parts) for pace in paces)
        return max(0, int(seconds * NANO) - blocks)

    def most_prompts(self) -> int:
        """Return the most prompts of a pass: each token has two residuals on every device."""
        hidden = min(block.hidden for block in self.costs.model.blocks)
        size = 2 * hidden * self.costs.model.precision_bytes * self.problem.prompt
        return max(1, self._limit // size)

    def most_requests(self) -> int:
        """Return the most requests of a group: the caches of all groups lie beside the weights."""
        (use,) = self.costs.memory(self.width)
        stages = min(self.stages, len(self.costs.model.blocks))
        room = self._limit - use.weights // stages
        return max(1, room // max(1, use.cache - 1) + 1)

    @property
    def _limit(self) -> int:
        return max(self.problem.cluster.memories) - self.problem.reserve_bytes
