"""Times and memory of a deployment: the law of ``serving``, from the deployment alone.

A piece of a block takes the larger of its operations over their rate and of its bytes over that of
memory (a roofline), and the ramps of its kernels. Launches take no time: servers replay captured
graphs. A pipeline of ``p`` stages decodes ``p`` groups of sequences in turn: a token takes
``max(sum of stages, groups x slowest stage)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from milp_plan.kinds.training.block_work import Kinds
from milp_plan.kinds.training.blocks import Block, Moe
from milp_plan.kinds.training.cluster import DeviceGroup
from milp_plan.kinds.training.collectives import Group, Traffic, point_to_point
from milp_plan.kinds.training.configuration import Configuration
from milp_plan.kinds.training.costs import NANO, Clock
from milp_plan.kinds.training.passes import Compute
from milp_plan.kinds.training.ranks import Layout

from .problem import Deployment, Objective, Phase, ServingProblem
from .work import PAGE, PassCounter, cache_elements, seen_tokens

MEGA = 10**6

ROUND_NS = 5_000.0
"""Latency of one round of a collective in a node under captured graphs; assumed. Between nodes, and
where the rates have less, that of the rates counts."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Time of one pass of some sequences through all stages, nanoseconds.

    Parameters
    ----------
    stages
        Of each pipeline stage, with sending to the next one.
    compute, tensor, expert, transfer
        Parts of their sum.
    least
        Of the slowest stage, if its weights and caches were read at the peak rate of memory and
        nothing else took time.
    """

    stages: tuple[int, ...]
    compute: int
    tensor: int
    expert: int
    transfer: int
    least: int

    @property
    def total(self) -> int:
        """From the first stage to the last one."""
        return sum(self.stages)


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """Memory of the devices of one pipeline stage, bytes."""

    weights: int
    cache: int
    buffers: int

    @property
    def total(self) -> int:
        """The peak."""
        return self.weights + self.cache + self.buffers


@dataclass(frozen=True, slots=True)
class Figures:
    """What a deployment reaches.

    Parameters
    ----------
    prefill, decode
        Passes; ``None`` for a phase that is not asked.
    first_token_ns, token_ns
        Time of the first token of a prompt that does not wait, and of each further token.
    request_ns
        Time of a request; of the phase that is asked.
    tokens, busy_ns
        Tokens that the cluster makes (prefill alone: reads) in some time, when it is full.
    value
        Of the objective: ``request_ns``, or nanoseconds of the cluster for a million tokens.
    """

    prefill: PassTime | None
    decode: PassTime | None
    first_token_ns: int | None
    token_ns: int | None
    request_ns: int
    tokens: int
    busy_ns: int
    value: int

    @property
    def tokens_per_s(self) -> float:
        """Of the whole cluster."""
        return self.tokens * NANO / self.busy_ns


class ServingCosts:
    """Times and memory of the deployments of one problem."""

    def __init__(self, problem: ServingProblem) -> None:
        self.problem = problem
        software = replace(problem.efficiency.software, launch_ns=0.0)
        self.efficiency = replace(problem.efficiency, software=software)
        self.model = replace(problem.architecture, prediction=None)

    @cached_property
    def clocks(self) -> tuple[tuple[DeviceGroup, Clock], ...]:
        """Return each group of devices with its rates."""
        groups = self.problem.cluster.groups
        return tuple((group, Clock(group, self.efficiency, Configuration())) for group in groups)

    @cached_property
    def _node_devices(self) -> int:
        return min(group.node_devices for group in self.problem.cluster.groups)

    def prefill(self, d: Deployment) -> PassTime | None:
        """Return the pass that computes prompts; ``None`` if that phase is not asked."""
        p = self.problem
        return None if p.phase is Phase.DECODE else self._pass(d, d.prompts, p.prompt, 0)

    def decode(self, d: Deployment) -> PassTime | None:
        """Return the pass that computes a token of each request of a group, or ``None``."""
        p = self.problem
        if not p.further_tokens:
            return None
        return self._pass(d, -(-d.requests // d.groups), 1, p.attended)

    def figures(self, d: Deployment) -> Figures:
        """Return what a deployment reaches."""
        p, prefill, decode = self.problem, self.prefill(d), self.decode(d)
        first = token = None
        request = busy = 0
        if prefill is not None:
            first = request = prefill.total
            busy = -(-d.requests // d.prompts) * max(prefill.stages)
        if decode is not None:
            token = max(decode.total, d.groups * max(decode.stages))
            request += p.further_tokens * token
            busy += p.further_tokens * token
        if p.phase is Phase.DECODE:
            request = token or 0
        tokens = d.data * d.requests * (p.prompt if p.phase is Phase.PREFILL else p.output)
        latency = p.objective is Objective.LATENCY
        value = request if latency else -(-busy * MEGA // tokens)
        return Figures(prefill, decode, first, token, request, tokens, busy, value)

    def memory(self, d: Deployment) -> tuple[ServingMemory, ...]:
        """Return the memory of each pipeline stage; pages of all requests are full at once."""
        p, model = self.problem, self.model
        prefills = p.phase is not Phase.DECODE
        flight = d.prompts * min(d.pipeline, -(-d.requests // d.prompts))
        sequences = flight if p.phase is Phase.PREFILL else d.requests
        counter = self.counter(d, d.prompts if prefills else d.requests, 1, 0)
        rows = d.prompts * p.prompt if prefills else d.requests
        made, known = [], dict[tuple[int, bool, bool], ServingMemory]()
        for stage in range(d.pipeline):
            kinds = model.kinds(counter.configuration.spans(model, stage))
            key = (id(kinds), stage == 0, stage == d.pipeline - 1)
            if key not in known:
                known[key] = self._use(counter, kinds, *key[1:], sequences=sequences, rows=rows)
            made.append(known[key])
        return tuple(made)

    def _use(
        self,
        counter: PassCounter,
        kinds: Kinds,
        first: bool,
        last: bool,
        *,
        sequences: int,
        rows: int,
    ) -> ServingMemory:
        p, model, tensor = self.problem, self.model, counter.configuration.tensor
        weights = sum(count * counter.local(block) for block, count in kinds)
        weights += first * model.embedding_parameters / tensor
        tied = model.tied and not first
        head = model.head_parameters + tied * model.vocabulary * model.hidden
        weights += last * head / tensor
        cache = 0.0
        for block, count in kinds:
            pages = -(-seen_tokens(block, p.cached_tokens) // PAGE)
            cache += count * pages * PAGE * cache_elements(block.attention, tensor)
        widest = max((self._width(block, counter) for block, _ in kinds), default=0.0)
        logits = counter.configuration.micro_batch * model.head_outputs / tensor
        return ServingMemory(
            math.ceil(counter.weight_bytes * weights),
            math.ceil(p.cache_bytes * sequences * cache),
            math.ceil(rows * widest * model.precision_bytes + 4 * logits * last),
        )

    def _width(self, block: Block, counter: PassCounter) -> float:
        """Elements of a token that exist at once in a block: two residuals and the widest part."""
        a, c, part = block.attention, counter.configuration, block.feed_forward
        attention = (a.heads * (2 * a.query_size + a.output_size)) / c.tensor
        if isinstance(part, Moe):
            inner = part.active * (3 * part.inner + 2 * block.hidden) / c.tensor
            inner += 3 * part.shared_inner / c.tensor
        else:
            inner = 3 * part.inner / c.tensor
        return 2 * block.hidden + max(attention, inner)

    def counter(
        self,
        d: Deployment,
        sequences: int,
        tokens: int,
        context: int,
        *,
        whole_tokens: bool = True,
    ) -> PassCounter:
        """Return what counts the work of a pass of some sequences."""
        p = self.problem
        layout = Layout(d.configuration(sequences, p.precision), self._node_devices)
        software = self.efficiency.software
        return PassCounter(
            *(self.model, layout, software),
            sequence=tokens,
            context=context,
            cache_bytes=p.cache_bytes,
            whole_tokens=whole_tokens,
        )

    def _pass(self, d: Deployment, sequences: int, tokens: int, context: int) -> PassTime:
        counter, model = self.counter(d, sequences, tokens, context), self.model
        c, cluster = counter.configuration, self.problem.cluster
        whole = model.kinds(((0, len(model.blocks)),))
        pieces = {id(block): counter.pieces(block) for block, _ in whole}
        stages, parts, least = [], [0.0] * 4, 0.0
        for stage in range(d.pipeline):
            clock = Pace(*self.clocks[cluster.group_of(stage * c.stage_devices)], counter)
            for block, count in model.kinds(c.spans(model, stage)):
                clock.add(*pieces[id(block)], times=count)
            if stage == 0:
                clock.add([counter.first()[0]], counter.first()[1])
            if stage == d.pipeline - 1:
                clock.add([counter.last()[0]], counter.last()[1])
            else:
                clock.send(stage, sequences * tokens * model.hidden * model.precision_bytes)
            stages.append(round(sum(clock.parts) * NANO))
            parts = [a + b for a, b in zip(parts, clock.parts, strict=True)]
            least = max(least, clock.read_bytes / clock.group.device.memory_bytes_per_s)
        compute, tensor, expert, transfer = (round(part * NANO) for part in parts)
        return PassTime(tuple(stages), compute, tensor, expert, transfer, int(least * NANO))


class Pace:
    """Seconds of one stage of a pass: compute, tensor, expert, transfer."""

    def __init__(self, group: DeviceGroup, clock: Clock, counter: PassCounter) -> None:
        self.group, self.clock, self.counter = group, clock, counter
        self.parts = [0.0] * 4
        self.read_bytes = 0.0

    def add(
        self,
        pieces: list[Compute],
        tensor: Traffic,
        expert: Traffic | None = None,
        times: int = 1,
    ) -> None:
        """Add some work, ``times`` over."""
        layout = self.counter.layout
        self.parts[0] += times * sum(map(self._roofline, pieces))
        self.parts[1] += times * self._sent(tensor, layout.tensor)
        self.parts[2] += times * self._sent(expert or Traffic(), layout.expert)
        self.read_bytes += times * sum(piece.matrix_bytes + piece.moved_bytes for piece in pieces)

    def send(self, stage: int, num_bytes: float) -> None:
        """Send the residual stream to the next stage."""
        size, node = self.counter.configuration.stage_devices, self.group.node_devices
        crosses = stage * size // node != (stage + 1) * size // node
        traffic = point_to_point(num_bytes / self.counter.configuration.tensor, crosses)
        gathered = self.counter.layout.tensor.all_gather(num_bytes)
        self.parts[3] += self.clock.traffic(traffic)
        self.parts[3] += self._sent(gathered, self.counter.layout.tensor)

    def _roofline(self, piece: Compute) -> float:
        clock = self.clock
        busy = piece.matrix_flops * clock.flop + piece.grouped_flops * clock.grouped
        busy += piece.attention_flops * clock.attention
        read = (piece.matrix_bytes + piece.moved_bytes) * clock.moved
        return max(busy, read) + piece.kernels * clock.kernel

    def _sent(self, traffic: Traffic, group: Group) -> float:
        clock = self.clock
        in_node = group.outer <= 1
        latency = min(clock.round, ROUND_NS / NANO) if in_node else clock.round
        wire = clock.traffic(traffic._replace(rounds=0.0))
        return wire + traffic.rounds * latency
