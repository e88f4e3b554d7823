"""Wire types of the answers of commands with ``--json``: one object per line and file.

Described in ``instances/formats/answer.md``, published as ``instances/formats/answer.schema.json``.
The members of a verb are always the same, whatever the kind of problem and also when it failed;
what is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .reason_wire import Effect, Infeasibility, Move, Point, Side, Why


class Units(msgspec.Struct, kw_only=True):
    """Units of a problem, and their multiples in its exact integers."""

    time: str
    size: str
    time_scale: int
    size_scale: int


class Answer(msgspec.Struct, kw_only=True):
    """Members of every answer."""

    file: str
    kind: str | None = None
    instance: str | None = None
    fingerprint: str | None = None
    objective: str | None = None
    unit: str | None = None
    ticks_per_unit: int | None = None
    amount_units: Units | None = None
    scope: str | None = None
    exit_code: int = 0
    errors: list[str] = []


class Violation(msgspec.Struct, kw_only=True):
    """One violation of a rule."""

    rule: str
    subjects: list[str]
    message: str
    needed: int | None
    available: int | None
    counts: Literal["things", "time", "size"]


class Bound(msgspec.Struct, kw_only=True):
    """A lower bound on the objective."""

    name: str
    value: int
    detail: str


class Stage(msgspec.Struct, kw_only=True):
    """A coarse problem that a run planned: values are ticks or bytes, null means unknown."""

    coarsening: str
    clusters: int
    columns: int | None
    rows: int | None
    start: int | None
    start_accepted: bool | None
    model: int | None
    bound: int | None
    stop: str | None
    windows: int | None
    seconds: float
    before: int | None
    after: int | None
    gap: float | None


class Solve(Answer, kw_only=True, tag_field="verb", tag="solve"):
    """Answer of ``solve``."""

    value: int | None = None
    bound: int | None = None
    value_in_unit: str | None = None
    bound_in_unit: str | None = None
    added_time_percent: float | None = None
    added_time_percent_bound: float | None = None
    bound_name: str | None = None
    gap: float | None = None
    gap_asked: float | None = None
    proved: bool | None = None
    stop: str | None = None
    verdict: Literal["ok", "violated", "no plan", "DISPUTED"] | None = None
    disputed_because: str | None = None
    infeasible_because: str | None = None
    unproved_because: str | None = None
    infeasibility: Infeasibility | None = None
    defects: list[str] = []
    planner: str | None = None
    start: str | None = None
    strategy: str | None = None
    formulation: str | None = None
    not_asked: str | None = None
    startless: str | None = None
    reached: dict[str, int] = {}
    baselines: dict[str, int | None] = {}
    best_baseline: int | None = None
    baseline_name: str | None = None
    bounds: dict[str, int] = {}
    coarse_stages: list[Stage] = []
    about: dict[str, Any] | None = None
    seconds: float | None = None
    phases: dict[str, float] = {}
    model_hash: str | None = None
    key: str | None = None
    record_file: str | None = None
    plan_file: str | None = None
    model_file: str | None = None
    plot_file: str | None = None


class StageShare(msgspec.Struct, kw_only=True):
    """Pieces of the model that a stage of a pipeline runs, numbered from 0."""

    stage: int
    devices: list[str]
    first_piece: int
    pieces: int
    names: list[str]


class Pipeline(Solve, kw_only=True, tag_field="verb", tag="pipeline"):
    """Answer of ``pipeline`` for a case, in units of its model."""

    placement: str
    chunks: int | None
    stages: int
    micro_batches: int
    time_unit: str
    size_unit: str
    cut: list[int] | None
    layers: list[StageShare]
    cuts: dict[str, Any] | None
    memory_limit: float | None
    time: float | None
    time_bound: float | None
    makespan: float | None
    span: float | None
    bubble: float | None
    bubble_rate: float | None
    peak_memory: float | None
    time_per_micro_batch: float | None
    instance_file: str | None = None


class Front(msgspec.Struct, kw_only=True, tag_field="verb", tag="front"):
    """Last answer of ``pipeline`` for several cases: those that no other case dominates."""

    front: list[str]
    plot_file: str | None = None


class Check(Answer, kw_only=True, tag_field="verb", tag="check"):
    """Answer of ``check``."""

    plan_file: str | None = None
    verdict: Literal["ok", "violated"] | None = None
    value: int | None = None
    value_in_unit: str | None = None
    violations: list[Violation] = []
    components: dict[str, int] = {}
    components_in_unit: dict[str, str] = {}


class Explain(Answer, kw_only=True, tag_field="verb", tag="explain"):
    """Answer of ``explain``."""

    plan_file: str | None = None
    verdict: Literal["ok", "violated"] | None = None
    value: int | None = None
    value_in_unit: str | None = None
    violations: list[Violation] = []
    components: dict[str, int] = {}
    components_in_unit: dict[str, str] = {}
    explanation: str | None = None
    details: dict[str, Any] | None = None
    bound: int | None = None
    why: Why | None = None
    what_if: list[Effect] = []
    infeasible_because: str | None = None
    infeasibility: Infeasibility | None = None


class Diff(Answer, kw_only=True, tag_field="verb", tag="diff"):
    """Answer of ``diff``."""

    before: Side | None = None
    after: Side | None = None
    change: int | None = None
    change_in_unit: str | None = None
    moves: list[Move] = []
    plot_file: str | None = None


class Sweep(Answer, kw_only=True, tag_field="verb", tag="sweep"):
    """Answer of ``sweep``."""

    points: list[Point] = []
    table_file: str | None = None
    plot_file: str | None = None


class Bounds(Answer, kw_only=True, tag_field="verb", tag="bound"):
    """Answer of ``bound``."""

    bound: int | None = None
    bound_in_unit: str | None = None
    bound_name: str | None = None
    infeasible_because: str | None = None
    bounds: list[Bound] = []


class Info(Answer, kw_only=True, tag_field="verb", tag="info"):
    """Answer of ``info``."""

    about: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None


class PackedMemory(msgspec.Struct, kw_only=True):
    """A memory with addresses of its copies."""

    device: str
    copies: int
    load: int
    height: int | None
    bound: int | None
    fragmentation: float | None
    limit: int | None
    fits: bool
    proved: bool
    planner: str


class Pack(Answer, kw_only=True, tag_field="verb", tag="pack"):
    """Answer of ``pack``."""

    plan_file: str | None = None
    verdict: Literal["ok", "violated"] | None = None
    fragmentation: float | None = None
    memories: list[PackedMemory] = []
    seconds: float | None = None
    addresses_file: str | None = None
    plot_file: str | None = None


AnyAnswer = Solve | Pipeline | Front | Check | Explain | Diff | Sweep | Bounds | Info | Pack
"""The answer of any command; the member ``verb`` names it."""
