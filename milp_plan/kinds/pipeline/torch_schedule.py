"""Export of a pipeline plan as a schedule that ``torch.distributed.pipelining`` runs.

Format: CSV without a header as ``_PipelineScheduleRuntime._load_csv(path, format="compute_only")``
reads it (torch 2.13; files are not portable to 2.5 and older). Row r is rank r, cells run in order,
``2F0`` is stage 2, forward, micro-batch 0; ``I`` is the input gradient, ``W`` the weight gradient,
``B`` both in one. Sends and receives are torch's own: it adds each send right behind its producer.

torch checks little of what it loads. What it refuses, what it would silently compute wrongly, and
what it cannot express is refused here, with one error that says which.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from milp_plan.core import Finding, InputError, MissingFacetError, Operator, Plan, PlanningProblem

from .torch_recompute import runs_once

LETTERS = {"forward": "F", "backward-input": "I", "backward-weight": "W", "backward": "B"}
"""Kinds of operators that torch has an action for."""

_SPLIT, _JOINT = frozenset("FIW"), frozenset("FB")
_WITHIN = {("F", "I"), ("F", "W"), ("F", "B"), ("I", "W")}
"""Pairs of actions within a stage and micro-batch where the second may read the first."""


class Action(NamedTuple):
    """One cell: an action of a rank."""

    stage: int
    letter: str
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.letter}{self.micro_batch}"


def torch_actions(problem: PlanningProblem, plan: Plan) -> list[list[Action]]:
    """Return the actions of each rank, in order; rank r is the r-th device of the cluster.

    The stages are the blocks of the graph in the order of the forward chain. Micro-batches are
    numbered in the order in which the last stage runs them forward, on every stage alike: torch
    keeps the losses in a list in the order in which they were computed and reads it by
    micro-batch, so any other order gives wrong gradients, without an error where all forwards run
    before the first backward.

    Parameters
    ----------
    problem, plan
        A plan with a schedule that the checker accepts.

    Raises
    ------
    InputError
        torch cannot run this plan, or would compute something else; one finding says why.
    MissingFacetError
        The plan has no schedule.
    """
    return _actions(problem, plan)[0]


def torch_remarks(problem: PlanningProblem, plan: Plan) -> list[str]:
    """Say which stages compute which micro-batches again; the schedule has no action for it.

    Raises
    ------
    InputError, MissingFacetError
        As in :func:`torch_actions`.
    """
    again: dict[int, list[int]] = {}
    for action in sorted(_actions(problem, plan)[1]):
        again.setdefault(action.stage, []).append(action.micro_batch)
    remedy = (
        "run its module under torch.utils.checkpoint.checkpoint(..., use_reentrant=False) there"
    )
    return [
        f"stage {stage} computes micro-batches {', '.join(map(str, batches))} again: {remedy}"
        for stage, batches in again.items()
    ]


def _actions(problem: PlanningProblem, plan: Plan) -> tuple[list[list[Action]], list[Action]]:
    """Return the actions of each rank, and forward passes that backward passes compute again."""
    if not plan.has_schedule:
        raise MissingFacetError(f"plan of {plan.problem!r} has no schedule: no order to export")
    if problem.cluster.hosts:
        names = ", ".join(sorted(problem.cluster.hosts))
        _refuse("cluster", f"hosts: {names}", "devices that compute", "plan without --host")
    pipeline = _Pipeline(problem, plan)
    rows, again = pipeline.rows()
    _run_through(rows, len(pipeline.stages))
    return rows, again


def torch_schedule_csv(problem: PlanningProblem, plan: Plan) -> str:
    """Return the schedule as text; see :func:`torch_actions`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [str(action) for action in row] for row in torch_actions(problem, plan)
    )
    return text.getvalue()


def _refuse(where: str, found: str, expected: str, remedy: str) -> NoReturn:
    raise InputError([Finding(where, found, expected, remedy)])


@dataclass
class _Pipeline:
    """The problem as stages in a chain, each on one device."""

    problem: PlanningProblem
    plan: Plan
    parts: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """Operator -> block, letter, micro-batch."""
    stages: dict[str, int] = field(default_factory=dict)
    """Block -> number of its stage."""

    def __post_init__(self) -> None:
        self.read_operators()
        self.check_parts()
        self.read_chain()
        self.check_places()

    # -- what there is -----------------------------------------------------------------------

    def read_operators(self) -> None:
        """Read block, letter and micro-batch of every operator."""
        seen: dict[tuple[str, str, int], str] = {}
        for operator in self.problem.graph.operators:
            part = _part(operator)
            if part in seen:
                _refuse(
                    f"operator {operator.name!r}",
                    f"a second {operator.kind} of {part[0]}, micro-batch {part[2]}, "
                    f"in addition to {seen[part]!r}",
                    "one per stage and micro-batch; torch counts a repeated action once and "
                    "would run the stage's whole pass twice",
                    "join them into one operator",
                )
            seen[part] = operator.name
            self.parts[operator.name] = part

    def check_parts(self) -> None:
        """Check that every stage runs every micro-batch forward and backward, once."""
        letters: dict[tuple[str, int], set[str]] = {}
        for block, letter, batch in self.parts.values():
            letters.setdefault((block, batch), set()).add(letter)
        blocks = {block for block, _ in letters}
        batches = {batch for _, batch in letters}
        for block in sorted(blocks):
            for batch in sorted(batches):
                found = letters.get((block, batch), set())
                if found not in (_SPLIT, _JOINT):
                    _refuse(
                        f"{block}, micro-batch {batch}",
                        "+".join(sorted(found, key="FIWB".index)) or "nothing",
                        "F+I+W or F+B; torch counts per stage only, and so accepts some mixtures "
                        "in which a micro-batch has no gradient or two",
                        "give every stage and micro-batch a whole backward pass, joint or split",
                    )

    def read_chain(self) -> None:
        """Number the stages along the forward chain; no other data may pass between them."""
        after: dict[str, str] = {}
        backward: list[tuple[str, str, str]] = []
        for name, producer, consumer in self.edges():
            (a, made, batch), (b, read, other) = self.parts[producer], self.parts[consumer]
            if batch != other:
                self.refuse_edge(name, producer, consumer, "within a micro-batch")
            elif a == b:
                if (made, read) not in _WITHIN:
                    self.refuse_edge(name, producer, consumer, "forward before backward")
            elif made == read == "F":
                if after.setdefault(a, b) != b:
                    self.refuse_edge(name, producer, consumer, f"{a} to {after[a]} only")
            elif made in "IB" and read in "IB":
                backward.append((name, producer, consumer))
            else:
                self.refuse_edge(name, producer, consumer, "F to F, or back from gradient to input")
        self.number(after)
        for name, producer, consumer in backward:
            a, b = self.parts[producer][0], self.parts[consumer][0]
            if self.stages[a] != self.stages[b] + 1:
                self.refuse_edge(name, producer, consumer, "a gradient to the stage before")

    def edges(self) -> Iterator[tuple[str, str, str]]:
        """Yield value, producer and consumer."""
        for value in self.problem.graph.values:
            if value.producer is not None:
                for consumer in value.consumers:
                    yield value.name, value.producer, consumer

    def refuse_edge(self, value: str, producer: str, consumer: str, expected: str) -> NoReturn:
        """Refuse a dependency that torch does not have."""
        _refuse(
            f"value {value!r}",
            f"data from {producer!r} to {consumer!r}",
            f"{expected}; torch hands tensors to the next stage and gradients to the one before, "
            "and knows no other dependency",
            "model the pipeline as a chain of stages",
        )

    def number(self, after: dict[str, str]) -> None:
        """Walk the chain from its only start."""
        blocks = {block for block, _, _ in self.parts.values()}
        starts = sorted(blocks - set(after.values()))
        if len(starts) != 1 or len(set(after.values())) != len(after):
            _refuse(
                "stages",
                f"forward passes that start at {', '.join(starts) or 'none'} and do not "
                "form one chain",
                "one chain of stages",
                "model the pipeline as a chain of stages",
            )
        block: str | None = starts[0]
        while block is not None and block not in self.stages:
            self.stages[block] = len(self.stages)
            block = after.get(block)
        if len(self.stages) != len(blocks):
            left = ", ".join(sorted(blocks - set(self.stages)))
            _refuse("stages", f"{left} outside the chain", "one chain", "connect the stages")

    def check_places(self) -> None:
        """Check that every stage is on one device, and every device has a stage."""
        places: dict[str, set[str]] = {}
        for run in self.plan.runs:
            block = self.parts[run.operator][0]
            if len(run.devices) != 1:
                _refuse(
                    f"operator {run.operator!r}",
                    f"a run on {' and '.join(run.devices)} together",
                    "one device per stage; a stage of torch lives on one rank",
                    "use options with gang 1",
                )
            places.setdefault(block, set()).add(run.devices[0])
        for block, devices in places.items():
            if len(devices) != 1:
                _refuse(
                    block,
                    f"copies on {' and '.join(sorted(devices))}",
                    "one device; torch has one copy of each stage, so it cannot run "
                    "bidirectional placements (DualPipe, Chimera), whose copies' gradients "
                    "would have to be added up",
                    "plan a placement with one copy of each stage, for example v",
                )
        used = {device for devices in places.values() for device in devices}
        idle = [name for name in self.problem.cluster.device_names if name not in used]
        if idle:
            _refuse(
                f"device {idle[0]!r}",
                "no stage",
                "a stage on every device: each row is a rank of torch, and an empty one stops it",
                "leave the device out of the cluster",
            )

    # -- what is written -----------------------------------------------------------------------

    def rows(self) -> tuple[list[list[Action]], list[Action]]:
        """Return actions of each device by time, in torch's numbers, and repeated forwards."""
        once, again = runs_once(self.problem, self.plan, self.parts)
        order = {name: at for at, name in enumerate(self.problem.graph.topological_order)}
        timed: dict[str, list[tuple[int, int, int, str]]] = {
            name: [] for name in self.problem.cluster.device_names
        }
        for run in once:
            assert run.start_ticks is not None
            assert run.stop_ticks is not None
            entry = (run.start_ticks, run.stop_ticks, order[run.operator], run.operator)
            timed[run.devices[0]].append(entry)
        words = [[self.parts[name] for *_, name in sorted(row)] for row in timed.values()]
        numbers = self.numbers(words)
        made = [
            [Action(self.stages[block], letter, numbers[batch]) for block, letter, batch in word]
            for word in [*words, again]
        ]
        return made[:-1], made[-1]

    def numbers(self, words: list[list[tuple[str, str, int]]]) -> dict[int, int]:
        """Return micro-batch -> its number for torch: its place among the last stage's forwards."""
        last = max(self.stages, key=self.stages.__getitem__)
        ran = [
            batch
            for word in words
            for block, letter, batch in word
            if (block, letter) == (last, "F")
        ]
        alike = self.likeness()
        for batch, stands_for in zip(ran, sorted(ran), strict=True):
            if alike[batch] != alike[stands_for]:
                _refuse(
                    last,
                    f"micro-batch {batch} forward where micro-batch {stands_for} is due",
                    "forwards of the last stage in micro-batch order: torch looks losses up by "
                    "the order in which they were computed and would silently take gradients of "
                    "the wrong ones; these two differ in time or size, so renumbering would "
                    "change the plan",
                    "plan again with the micro-batches in order on the last stage",
                )
        return {batch: number for number, batch in enumerate(ran)}

    def likeness(self) -> dict[int, tuple[object, ...]]:
        """Return micro-batch -> all its times and sizes; equal for those that can change places."""
        features: dict[int, list[object]] = {}
        for operator in self.problem.graph.operators:
            block, letter, batch = self.parts[operator.name]
            options = tuple(
                (o.name, sorted(o.duration_ticks.items()), o.workspace_bytes)
                for o in operator.options
            )
            sizes = sorted(
                (
                    sorted(self.parts[reader][:2] for reader in value.consumers),
                    sorted((layout, value.payload(layout), n) for layout, n in value.bytes.items()),
                    value.messages,
                )
                for value in self.problem.graph.outputs[operator.name]
            )
            features.setdefault(batch, []).append((block, letter, options, sizes))
        return {batch: tuple(sorted(entries, key=repr)) for batch, entries in features.items()}


def _part(operator: Operator) -> tuple[str, str, int]:
    """Return the block, letter and micro-batch of an operator that torch has an action for."""
    where = f"operator {operator.name!r}"
    if operator.kind not in LETTERS:
        _refuse(
            where,
            f"the kind {operator.kind!r}",
            f"one of {', '.join(LETTERS)}; torch would leave out everything else (offload, "
            "updates) and run overlapped pairs one after the other",
            "plan without such operators",
        )
    if operator.micro_batch is None or operator.block is None:
        lacks = "micro-batch" if operator.micro_batch is None else "block"
        _refuse(
            where,
            f"no {lacks}",
            "a micro-batch, and the stage as its block",
            "unroll the problem over its micro-batches (milp_plan.kinds.pipeline.pipeline_problem)",
        )
    return operator.block, LETTERS[operator.kind], operator.micro_batch


def _run_through(rows: list[list[Action]], stages: int) -> None:
    """Check that the ranks do not wait for each other in a circle, as torch would."""
    done: set[tuple[int, str, int]] = set()
    at = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row) and _ready(row[at[rank]], stages, done):
                stage, letter, batch = row[at[rank]]
                done.add((stage, "I" if letter == "B" else letter, batch))
                at[rank] += 1
                moved = True
    stuck = [
        (rank, row[n]) for rank, (row, n) in enumerate(zip(rows, at, strict=True)) if n < len(row)
    ]
    if stuck:
        rank, action = stuck[0]
        _refuse(
            f"rank {rank}",
            f"action {action} before what it needs has run",
            "an order in which every stage follows its neighbour; torch would not get on",
            "give the problem all values of the chain: outputs forward, gradients back",
        )


def _ready(action: Action, stages: int, done: set[tuple[int, str, int]]) -> bool:
    stage, letter, batch = action
    if letter == "F":
        return stage == 0 or (stage - 1, "F", batch) in done
    if letter == "W":
        return (stage, "I", batch) in done
    waited = stage + 1 == stages or (stage + 1, "I", batch) in done
    return waited and (stage, "F", batch) in done
