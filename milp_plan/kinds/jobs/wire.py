"""How problems of jobs and their plans are written: the members of their files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from milp_plan.io.pipeline_file import Amount
from milp_plan.io.wire import Count, Positive, Strict


class WirePool(Strict):
    """Devices that are alike. ``slowdown`` multiplies the times of shards.

    ``device`` is the class that the cost model knows them by.
    """

    name: str
    device: str | None = None
    devices: Positive = 1
    memory_bytes: Count | None = None
    slowdown: Amount = 1


class WireOption(Strict):
    """A way to run a unit, or one mini-batch of a job; ``pool`` is the first unless it says so."""

    technique: str
    time: Amount
    devices: Positive = 1
    pool: str = ""
    bytes: Count = 0


class WireWeights(Strict):
    """What comes from the host and goes back."""

    name: str
    bytes: Count = 0
    load: Amount = 0
    store: Amount = 0


class WireUnit(Strict):
    """A unit, or several that are alike."""

    options: Annotated[tuple[WireOption, ...], msgspec.Meta(min_length=1)]
    weights: str | None = None
    repeat: Positive = 1


class WireShard(Strict):
    """A shard of a model: times of one mini-batch, and what moves with its weights."""

    forward: Amount
    backward: Amount
    bytes: Count = 0
    load: Amount = 0
    store: Amount = 0


class WireLayer(WireShard):
    """A layer of a model that is yet to be cut into shards, or several that are alike."""

    repeat: Positive = 1


class WireModel(Strict):
    """What is trained: an architecture of the zoo, or one step of it in an instance file."""

    zoo: str | None = None
    instance: str | None = None
    pool: str | None = None
    devices: tuple[Positive, ...] = ()
    techniques: tuple[Literal["pipeline", "sharded"], ...] = ("pipeline", "sharded")
    batch: Positive = 8
    micro_batches: Positive = 1
    granularity: str = "fine"
    optimizer: str = "adam"


class WireJob(Strict):
    """A job by exactly one of ``options``, ``shards``, ``layers``, ``units`` and ``model``."""

    name: str
    release: Amount = 0
    weight: Count = 1
    host_bytes: Count = 0
    epochs: Positive = 1
    mini_batches: Positive = 1
    options: tuple[WireOption, ...] = ()
    shards: tuple[WireShard, ...] = ()
    units: tuple[WireUnit, ...] = ()
    weights: tuple[WireWeights, ...] = ()
    layers: tuple[WireLayer, ...] = ()
    buffer_bytes: Count = 0
    model: WireModel | None = None


class WireJobs(Strict):
    """A cluster and its jobs."""

    format: Literal["milp-plan-jobs"]
    version: Literal[1]
    name: str
    pools: Annotated[tuple[WirePool, ...], msgspec.Meta(min_length=1)]
    jobs: Annotated[tuple[WireJob, ...], msgspec.Meta(min_length=1)]
    objective: Literal["makespan", "weighted_completion"] = "makespan"
    host_bytes: Count | None = None
    time_unit: str = "unspecified"
    ticks_per_unit: Positive | None = None
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WireRun(Strict):
    """A run."""

    job: str
    unit: Count
    option: Count
    devices: tuple[int, ...]
    start_ticks: int
    load_ticks: int | None = None
    store_ticks: int | None = None


class WirePlan(Strict):
    """A plan of jobs."""

    format: Literal["milp-plan-jobs-plan"]
    version: Literal[1]
    problem: str
    runs: tuple[WireRun, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    parent: str | None = None
