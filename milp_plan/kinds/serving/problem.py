"""The problem: a model, a cluster, the size of a request; and its plan, one deployment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.errors import below_findings
from milp_plan.kinds.training.architecture import Architecture
from milp_plan.kinds.training.cluster import TrainingCluster
from milp_plan.kinds.training.configuration import Configuration, Precision
from milp_plan.kinds.training.problem import MOST_TOKENS


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
class ServingProblem:
    """Which deployment answers requests the fastest, or answers the most.

    Parameters
    ----------
    architecture, cluster
        The model, and where it runs.
    prompt, output
        Tokens of a request's prompt, and of its answer.
    objective, phase
        What is the best, and of what.
    requests
        Requests in flight in the whole cluster; ``None`` for one (latency), or for as many as are
        best (throughput).
    precision
        Element type of weights and of products.
    cache_bytes
        Bytes of an element of the cache of keys and values.
    reserve_bytes
        Memory of every device that no plan may use.
    first_token_ns, token_ns
        Limits on the time of the first token and of each further one; ``None`` for none.

    Raises
    ------
    InputError
        A figure below its least, or a model that generates no tokens.
    """

    architecture: Architecture
    cluster: TrainingCluster
    prompt: int
    output: int
    objective: Objective = Objective.LATENCY
    phase: Phase = Phase.BOTH
    requests: int | None = None
    precision: Precision = Precision.BF16
    cache_bytes: int = 2
    reserve_bytes: int = 0
    first_token_ns: int | None = None
    token_ns: int | None = None

    units = Units()

    def __post_init__(self) -> None:
        findings = list(self._findings())
        if findings:
            raise InputError(findings)

    def _findings(self) -> Iterator[Finding]:
        for name, least in (("prompt", 1), ("output", 1), ("cache_bytes", 1), ("reserve_bytes", 0)):
            yield from below_findings(name, getattr(self, name), least)
        for name in ("requests", "first_token_ns", "token_ns"):
            if getattr(self, name) is not None:
                yield from below_findings(name, getattr(self, name), 1)
        for name in ("prompt", "output", "requests"):
            number = getattr(self, name)
            if number is not None and number > MOST_TOKENS:
                yield Finding(name, f"{number:,}", f"at most {MOST_TOKENS:,}", "ask for less")
        if self.reserve_bytes >= self.cluster.memory_bytes:
            expected = f"less than the memory of a device, {self.cluster.memory_bytes} bytes"
            yield Finding("reserve", f"{self.reserve_bytes} bytes", expected, "reserve less")
        model = self.architecture
        if model.output_classes or not model.blocks[-1].attention.causal:
            found = f"{model.name}, which generates no tokens"
            yield Finding("model", found, "a decoder", "name a decoder")
        limits = {Phase.DECODE: self.first_token_ns, Phase.PREFILL: self.token_ns}
        if limits.get(self.phase) is not None:
            where = "first token" if self.phase is Phase.DECODE else "token"
            found, expected = f"a limit beside phase {self.phase}", "a limit for that phase"
            yield Finding(where, found, expected, "leave it out, or ask both phases")

    @property
    def name(self) -> str:
        """Model and cluster."""
        return f"{self.architecture.name} served on {self.cluster.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that changes the problem."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    @property
    def cached_tokens(self) -> int:
        """Tokens of one request whose keys and values are kept at its end."""
        return self.prompt + (0 if self.phase is Phase.PREFILL else self.output)

    def limit_bytes(self, deployment: Deployment, stage: int) -> int:
        """Memory that a plan may use on the devices of a pipeline stage."""
        group = self.cluster.group_of(stage * deployment.tensor * deployment.data)
        return self.cluster.memories[group] - self.reserve_bytes

    def why_not(self, deployment: Deployment) -> str | None:
        """Say in one sentence why a deployment cannot run, memory apart; ``None`` if it can."""
        for name, number in asdict(deployment).items():
            if number < 1:
                return f"{name} is {number}, below 1"
        if deployment.prompts > deployment.requests:
            return f"{deployment.prompts} prompts at once of {deployment.requests} requests"
        asked = self.requests
        if asked is not None and deployment.requests * deployment.data < asked:
            flight = deployment.requests * deployment.data
            return f"{flight} requests in flight, {asked} were asked"
        c = deployment.configuration(1, self.precision)
        return c.why_not(self.architecture, self.cluster, c.global_batch)


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """A deployment as the answer to a problem.

    Parameters
    ----------
    problem, fingerprint
        Name and fingerprint of the problem.
    deployment
        The answer.
    value
        Value that its maker claims, in the unit of the objective.
    planner
        Who made it.
    """

    problem: str
    fingerprint: str
    deployment: Deployment
    value: int | None = None
    planner: str = ""
