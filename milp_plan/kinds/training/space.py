"""Every configuration that is considered, and the cheapest lower bound on the step of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from typing import Any

from .architecture import Architecture
from .blocks import Moe
from .configuration import (
    V_SHAPED,
    Configuration,
    Offload,
    Recompute,
    Schedule,
)
from .problem import TrainingProblem
from .replay import why_undefined

MICRO_BATCHES = (1, 2, 3, 4, 8, 16)
"""Samples of a micro-batch."""

LEAST_CONTEXT_TOKENS = 4096
"""Tokens of a sample that a context-parallel rank has at least."""

SCHEDULES = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.ZB_H1, Schedule.ZB_V)

NOT_CONSIDERED = {
    "tensor parallelism between nodes": "tensor parallelism over more than one node",
    "short context ranks": (
        f"context parallelism below {LEAST_CONTEXT_TOKENS:,} tokens a rank, or of a degree that is "
        "no power of two"
    ),
    "whole norms": (
        "tensor parallelism without sequence parallelism, but where the framework needs that"
    ),
    "other micro-batches": (
        f"micro-batches of other than {', '.join(map(str, MICRO_BATCHES))} samples"
    ),
    "unsharded optimizer": (
        "optimizer state on every data rank (never faster by these costs, and larger)"
    ),
    "other sharding": (
        "gradients or parameters sharded with a pipeline; sharding over fewer than all data and "
        "context ranks"
    ),
    "other schedules": f"schedules other than {', '.join(SCHEDULES[:-1])} and {SCHEDULES[-1]}",
    "other blocks on stages": (
        "blocks on stages other than evenly, or in up to three ways with the shortest slowest "
        "stage (1F1B and ZB-H1 alone)"
    ),
    "other recomputed blocks": (
        "numbers of recomputed blocks that differ within a stage, or are more than memory asks "
        "for; where recompute is fixed, fewer than all (fix recomputed or recomputed_by_chunk)"
    ),
    "8-bit products": "8-bit products",
    "memory of hosts": "activations or the optimizer's state in the memory of hosts (--host)",
    "offload of parameters": "parameters and gradients in the host's memory",
    "other ways to save memory": ("blocks of a plan that recompute, or offload, in different ways"),
}
"""What no plan uses unless it is fixed, in few words and in full."""

NOT_MEASURED = {
    "tensor, context and expert parallelism": (
        "tensor, context and expert parallelism, which layers measured on one device do not tell"
    ),
    "other micro-batches": "micro-batches of other than the measured number of samples",
}
"""The same for measured layers."""

UNSAID_OF_MEASURED = (
    *("tensor parallelism between nodes", "short context ranks", "whole norms"),
    "8-bit products",
)
"""What means nothing for measured layers."""


def not_considered(problem: TrainingProblem) -> dict[str, str]:
    """Return what no plan of a problem uses unless it is fixed: in few words -> in full."""
    known, unsaid = NOT_CONSIDERED, ("memory of hosts",) if problem.host else ()
    if problem.architecture.measured_batch:
        known, unsaid = known | NOT_MEASURED, (*unsaid, *UNSAID_OF_MEASURED)
    return {name: text for name, text in known.items() if name not in unsaid}


@cache
def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors in ascending order."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))


def allowed(fixed: Mapping[str, Any], name: str, usual: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the one value of a fixed field, or the usual ones."""
    return (fixed[name],) if name in fixed else usual


def expert_degrees(
    architecture: Architecture, fixed: Mapping[str, Any], tensor: int, stage_devices: int
) -> tuple[tuple[int, int], ...]:
    """Return degrees of experts, each with the split of an expert, on the devices of a stage."""
    parts = [block.feed_forward for block, _ in architecture.runs]
    counts = [part.experts for part in parts if isinstance(part, Moe)]
    degrees = divisors(min(counts)) if counts else (1,)
    splits = tuple(dict.fromkeys((1, tensor))) if counts else (1,)
    return tuple(
        (expert, split)
        for expert in allowed(fixed, "expert", degrees)
        for split in allowed(fixed, "expert_tensor", splits)
        if stage_devices % (expert * split) == 0
    )


Refused = Callable[[Configuration], Sequence[str]]
"""Why something cannot run a configuration, a reason each."""


def no_reason(_configuration: Configuration) -> tuple[str, ...]:
    """Refuse nothing."""
    return ()


@dataclass(frozen=True)
class Space:
    """The configurations that are considered.

    Parameters
    ----------
    problem
        What is planned.
    fixed
        Field of :class:`Configuration` -> the one value that it may have.
    refused
        Why the framework to plan for cannot run a configuration; no reason if it can.
    """

    problem: TrainingProblem
    fixed: Mapping[str, Any]
    refused: Refused = no_reason

    def __iter__(self) -> Iterator[Configuration]:
        """List every configuration that can run, memory apart, in any framework.

        Where the framework to plan for cannot run sequence parallelism, the same without it too.
        """
        for chosen in self._chosen():
            if why_undefined(chosen) is None and self.problem.why_not(chosen) is None:
                yield chosen
                if chosen.sequence_parallel and "sequence_parallel" not in self.fixed:
                    whole = replace(chosen, sequence_parallel=False)
                    if self.refused(chosen) and not self.refused(whole):
                        yield whole

    def why_refused(self) -> tuple[str, ...]:
        """Return the fewest reasons why the framework runs nothing; none if it runs something."""
        fewest: tuple[str, ...] = ()
        for each in self:
            reasons = tuple(self.refused(each))
            if not reasons:
                return ()
            fewest = min(fewest or reasons, reasons, key=len)
        return fewest

    def why_empty(self) -> str:
        """Say in one sentence why the fixed fields leave nothing that can run."""
        culprits = "; ".join(self._misfits())
        if culprits:
            return culprits
        for chosen in self._chosen():
            reason = why_undefined(chosen) or self.problem.why_not(chosen)
            if reason is not None:
                return reason
        return "no degrees, micro-batches and chunks with these values fit cluster and batch"

    def _misfits(self) -> Iterator[str]:
        """List fixed degrees, samples and blocks that do not go into cluster, batch and model."""
        problem, fixed = self.problem, self.fixed
        devices, samples = problem.cluster.devices, problem.global_batch
        yield from degree_misfits(fixed, devices)
        of = f"the batch of {samples}"
        if samples % fixed.get("data", 1):
            yield f"data {fixed['data']} does not divide {of}"
        elif "data" in fixed:
            samples, of = samples // fixed["data"], f"{samples // fixed['data']} samples of a rank"
        for name in ("micro_batch", "micro_batches"):
            if samples % fixed.get(name, 1):
                yield f"{name} {fixed[name]} does not divide {of}"
        measured = problem.architecture.measured_batch or 1
        if samples % measured:
            yield f"the measured micro-batch of {measured} does not divide {of}"
        layers, blocks = fixed.get("layers", ()), len(problem.architecture.blocks)
        if layers and sum(layers) != blocks:
            yield f"layers sum to {sum(layers)}, the model has {blocks} blocks"

    def _chosen(self) -> Iterator[Configuration]:
        fixed = {name: value for name, value in self.fixed.items() if name in _FREE}
        for draft in self._drafts():
            made = replace(draft, **fixed) if fixed else draft
            if all(getattr(made, name) == value for name, value in self.fixed.items()):
                yield made

    def _allowed(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return allowed(self.fixed, name, values)

    def _drafts(self) -> Iterator[Configuration]:
        problem, cluster = self.problem, self.problem.cluster
        node = min(group.node_devices for group in cluster.groups)
        tensors = self._allowed("tensor", divisors(node))
        contexts = tuple(
            c
            for c in divisors(cluster.devices)
            if c == 1 or (c & (c - 1) == 0 and problem.sequence >= c * LEAST_CONTEXT_TOKENS)
        )
        blocks = len(problem.architecture.blocks)
        for tensor, context in product(tensors, self._allowed("context", contexts)):
            if cluster.devices % (tensor * context):
                continue
            rest = cluster.devices // (tensor * context)
            pipelines = tuple(p for p in divisors(rest) if p <= blocks)
            for pipeline in self._allowed("pipeline", pipelines):
                data = rest // pipeline
                if data < 1 or problem.global_batch % data or self.fixed.get("data", data) != data:
                    continue
                base = Configuration(
                    tensor=tensor, context=context, pipeline=pipeline, data=data,
                    sequence_parallel=tensor > 1,
                )  # fmt: skip
                yield from self._refined(base)

    def _refined(self, base: Configuration) -> Iterator[Configuration]:
        problem = self.problem
        samples = problem.global_batch // base.data
        measured = problem.architecture.measured_batch
        usual = (measured,) if measured else MICRO_BATCHES
        sizes = tuple(b for b in usual if samples % b == 0)
        sharded = base.pipeline == 1 and base.data * base.context > 1
        zeros = (1, 2, 3) if sharded else (1,)
        choices = product(
            expert_degrees(problem.architecture, self.fixed, base.tensor, base.stage_devices),
            self._allowed("micro_batch", sizes),
            self._orders(base.pipeline),
            self._recomputed(),
            self._allowed("zero", zeros),
        )
        for (expert, split), size, (schedule, virtual), recompute, zero in choices:
            if samples % size:
                continue
            yield replace(
                base,
                expert=expert,
                expert_tensor=split,
                micro_batch=size,
                micro_batches=samples // size,
                schedule=schedule,
                virtual=virtual,
                recompute=recompute,
                zero=zero,
            )

    def _recomputed(self) -> tuple[Recompute, ...]:
        """Return what is fixed, or nothing: a search recomputes only where memory asks for it."""
        if any(self.fixed.get(name) for name in ("recomputed", "recomputed_by_chunk")):
            return self.recomputes
        return self._allowed("recompute", (Recompute.NONE,))

    @property
    def recomputes(self) -> tuple[Recompute, ...]:
        """What may happen with activations: the fixed value, or all that is offered."""
        host = self.problem.host
        offered = tuple(r for r in Recompute if host or r is not Recompute.OFFLOAD)
        return self._allowed("recompute", offered)

    @property
    def offloads(self) -> tuple[Offload, ...]:
        """Where the optimizer's state may be: the fixed value, or all that is offered."""
        return self._allowed("offload", tuple(Offload) if self.problem.host else (Offload.NONE,))

    def _orders(self, pipeline: int) -> tuple[tuple[Schedule, int], ...]:
        """Schedules with numbers of virtual stages."""
        if pipeline == 1:
            return ((self.fixed.get("schedule", Schedule.ONE_F_ONE_B), 1),)
        blocks = len(self.problem.architecture.blocks)
        most = blocks // pipeline
        chunked = tuple(
            v for v in dict.fromkeys(-(-blocks // (pipeline * n)) for n in range(most, 0, -1))
            if 1 < v <= most
        )  # fmt: skip
        orders: list[tuple[Schedule, int]] = []
        for schedule in self._allowed("schedule", SCHEDULES):
            if schedule in V_SHAPED:
                virtual: tuple[int, ...] = (2,) if most >= 2 else ()
            elif schedule is Schedule.INTERLEAVED:
                virtual = self._allowed("virtual", chunked)
            else:
                virtual = (1,)
            orders += [(schedule, v) for v in virtual]
        return tuple(order for order in orders if self.fixed.get("virtual", order[1]) == order[1])


DEGREES = ("tensor", "context", "pipeline", "data")
"""Fields whose product is the number of devices."""


def degree_misfits(fixed: Mapping[str, Any], devices: int) -> Iterator[str]:
    """List fixed degrees that do not divide the devices, alone or together."""
    degrees = {name: fixed[name] for name in DEGREES if name in fixed}
    alone = [name for name, degree in degrees.items() if devices % degree]
    yield from (f"{name} {degrees[name]} does not divide {devices} devices" for name in alone)
    if not alone and devices % prod(degrees.values()):
        text = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
        yield f"{text} does not divide {devices} devices"


_FREE = frozenset(
    {"recomputed", "recomputed_by_chunk", "sequence_parallel", "precision", "offload", "layers"}
)
"""Fields that only the user changes."""
