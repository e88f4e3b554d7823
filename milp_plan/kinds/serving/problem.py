"""The problem: a model, a cluster, the size of a request; and its plan, one deployment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from milp_plan.core import Finding
from milp_plan.core.errors import below_findings
from milp_plan.core.exactness import spell_words
from milp_plan.core.shown import ShownPlan
from milp_plan.kinds.training.configuration import Configuration, Precision
from milp_plan.kinds.training.problem import MOST_TOKENS, ModelOnCluster, above_findings

MOST_NS = 10**18
"""Limit on a time at most."""


class Phase(StrEnum):
    """What the cluster does for a request."""

    BOTH = "both"
    PREFILL = "prefill"
    """The prompt alone, up to the first token."""
    DECODE = "decode"
    """All tokens after the first one."""


class Objective(StrEnum):
    """What is the best."""

    LATENCY = "latency"
    """Time of one request; of its first token or of each further one, if one phase is asked."""
    THROUGHPUT = "throughput"
    """Tokens per second: of prompts where prefill alone is asked, else of outputs."""


WORDS: dict[str, type[StrEnum]] = {
    "objective": Objective,
    "phase": Phase,
    "precision": Precision,
    "cache_precision": Precision,
}
"""Fields of a problem that are words, with their values."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a model is divided over the devices of a cluster to answer requests.

    Parameters
    ----------
    tensor, pipeline, data
        Degrees; ``data`` replicas answer requests of their own. Their product is the number of
        devices.
    expert, expert_tensor
        Devices over which the experts of a layer are distributed, which may be those of several
        replicas, and over which each expert's matrices are split.
    requests
        Requests in flight on each replica.
    prompts
        Prompts that a replica computes at once.
    """

    tensor: int = 1
    expert: int = 1
    expert_tensor: int = 1
    pipeline: int = 1
    data: int = 1
    requests: int = 1
    prompts: int = 1

    @property
    def stage_devices(self) -> int:
        """Devices of one pipeline stage."""
        return self.tensor * self.data

    @property
    def groups(self) -> int:
        """Groups of requests that decode in turn, at most one a stage."""
        return min(self.pipeline, self.requests)

    def configuration(self, sequences: int, precision: Precision) -> Configuration:
        """Return the configuration of a pass over some sequences of a replica."""
        return Configuration(
            tensor=self.tensor,
            expert=self.expert,
            expert_tensor=self.expert_tensor,
            pipeline=self.pipeline,
            data=self.data,
            micro_batch=sequences,
            zero=0,
            precision=precision,
        )


@dataclass(frozen=True)
class ServingProblem(ModelOnCluster):
    """Which deployment answers requests the fastest, or answers the most.

    Fields beside those of :class:`~milp_plan.kinds.training.problem.ModelOnCluster`:

    Parameters
    ----------
    prompt, output
        Tokens of a request's prompt, and of its answer.
    objective, phase
        What is the best, and of what.
    requests
        Requests in flight in the whole cluster; ``None`` for one (latency), or for as many as are
        best (throughput).
    precision, cache_precision
        Element type of weights and products, and of the cache of keys and values.
    first_token_ns, token_ns
        Limits on the time of the first token and of each further one; ``None`` for none.

    Raises
    ------
    InputError
        A figure below its least, a word that is not known, or a model that generates no tokens.
    """

    decision = Deployment

    prompt: int
    output: int = 1
    objective: Objective = Objective.LATENCY
    phase: Phase = Phase.BOTH
    requests: int | None = None
    precision: Precision = Precision.BF16
    cache_precision: Precision = Precision.BF16
    first_token_ns: int | None = None
    token_ns: int | None = None

    def __post_init__(self) -> None:
        spell_words(self, WORDS)
        super().__post_init__()

    def _findings(self) -> Iterator[Finding]:
        for name in ("prompt", "output", "requests", "first_token_ns", "token_ns"):
            number = getattr(self, name)
            if number is not None:
                yield from below_findings(name, number, 1)
                yield from above_findings(name, number, MOST_NS if "_ns" in name else MOST_TOKENS)
        yield from super()._findings()
        model = self.architecture
        if model.measured_batch or model.output_classes or not model.blocks[-1].attention.causal:
            found = f"{model.name}, which generates no tokens"
            yield Finding("model", found, "a decoder", "name a decoder")
        limits = {Phase.DECODE: "first_token_ns", Phase.PREFILL: "token_ns"}
        name = limits.get(self.phase, "")
        if name and getattr(self, name) is not None:
            found, expected = f"a limit beside phase {self.phase}", "a limit for that phase"
            yield Finding(name, found, expected, "leave it out, or ask both phases")

    def _size(self) -> tuple[Any, ...]:
        size = (self.prompt, self.output, str(self.phase))
        return (*size, str(self.precision), str(self.cache_precision))

    def _limits(self) -> tuple[Any, ...]:
        return str(self.objective), self.requests, self.first_token_ns, self.token_ns

    @property
    def name(self) -> str:
        """Model and cluster."""
        return f"{self.architecture.name} served on {self.cluster.name}"

    @property
    def cache_bytes(self) -> int:
        """Bytes of an element of the cache."""
        return element_bytes(self.cache_precision)

    @property
    def further_tokens(self) -> int:
        """Tokens of a request that decode passes make."""
        return 0 if self.phase is Phase.PREFILL else self.output - (self.phase is Phase.BOTH)

    @property
    def attended(self) -> int:
        """Tokens that a decode pass attends to: the prompt and half of the output."""
        return self.prompt + self.output // 2

    @property
    def cached_tokens(self) -> int:
        """Tokens of one request whose keys and values are cached at its end."""
        return self.prompt + (0 if self.phase is Phase.PREFILL else self.output)

    def degree_reasons(self, deployment: Deployment) -> Iterator[str]:
        """List every reason why degrees cannot be, memory apart, one sentence each."""
        c = deployment.configuration(1, self.precision)
        yield from c.reasons(self.architecture, self.cluster, c.global_batch)

    def request_reasons(self, deployment: Deployment) -> Iterator[str]:
        """List what is wrong with the numbers of requests and prompts."""
        requests, prompts = deployment.requests, deployment.prompts
        for name, number in (("requests", requests), ("prompts", prompts)):
            if not 1 <= number <= MOST_TOKENS:
                yield f"{name} is {number}, expected 1 to {MOST_TOKENS:,}"
        if prompts > requests:
            yield f"{prompts} prompts at once of {requests} requests"
        flight = requests * deployment.data
        if self.requests is not None and flight < self.requests:
            yield f"{flight} requests in flight, {self.requests} were asked"

    def reasons(self, decision: Deployment) -> Iterator[str]:
        """List every reason why a deployment cannot run, memory apart, one sentence each."""
        yield from self.request_reasons(decision)
        yield from self.degree_reasons(decision)


def deployment_text(problem: ServingProblem, d: Deployment) -> str:
    """Write a deployment in one line."""
    parts = [f"TP {d.tensor}", f"PP {d.pipeline}", f"{d.data} replica{'s' * (d.data > 1)}"]
    if d.expert * d.expert_tensor > 1:
        split = f" x ETP {d.expert_tensor}" if d.expert_tensor > 1 else ""
        parts.append(f"EP {d.expert}{split}")
    if problem.phase is not Phase.PREFILL:
        parts.append(f"{d.requests:,} request{'s' * (d.requests > 1)} a replica")
    if problem.phase is not Phase.DECODE:
        parts.append(f"{d.prompts} prompt{'s' * (d.prompts > 1)} at once")
    return " · ".join(parts)


def element_bytes(precision: Precision) -> int:
    """Return the bytes of an element."""
    return 1 if precision is Precision.FP8 else 2


@dataclass(frozen=True)
class ServingPlan(ShownPlan):
    """A deployment as the answer to a problem.

    Parameters
    ----------
    problem, fingerprint
        Name and fingerprint of the problem.
    deployment
        The answer.
    value
        Nanoseconds that its maker claims: of a request, or of the cluster for a million tokens.
    planner
        Who made it.
    parent
        What variants of the problem have in common.
    """

    problem: str
    fingerprint: str | None
    deployment: Deployment
    value: int | None = None
    planner: str = ""
    parent: str | None = None
