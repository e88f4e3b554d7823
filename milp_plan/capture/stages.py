"""The file ``torch-stages``: modules and costs of each stage of a pipeline.

Described in ``instances/formats/torch-stages.md``. Nothing here needs PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from milp_plan.core import FULL, Finding, InputError, Plan, PlanningProblem, Value
from milp_plan.io.files import Document, read_document
from milp_plan.io.stage_wire import MARKER, TorchStage, TorchStages
from milp_plan.io.wire import decode, encode

from .chain import COPY, GRADIENT, STATE, WORKSPACE
from .checkpoints import FINGERPRINT
from .passes import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD


def is_stages(document: Document) -> bool:
    """Return whether a document has the marker of a stage file."""
    return document.marker == MARKER


def read_stages(path: str | Path) -> TorchStages:
    """Read a stage file.

    Raises
    ------
    InputError
        The file has defects of syntax and types, or duplicate modules; the error lists all of them.
    """
    document = read_document(path, "a torch-stages file")
    return stages_from_json(document.data, document.file)


def stages_from_json(data: bytes, file: str = "") -> TorchStages:
    """Read stages from their JSON text; ``file`` names it in findings.

    Raises
    ------
    InputError
        See :func:`read_stages`.
    """
    stages = decode(data, TorchStages, file, MARKER)
    named = Counter(module for stage in stages.stages for module in stage.modules)
    findings = [
        Finding(f"module {module!r}", f"in {count} places", "in one stage", "remove the others")
        for module, count in named.items()
        if count > 1
    ]
    if findings:
        raise InputError(findings).in_file(file)
    return stages


def stages_text(problem: PlanningProblem, plan: Plan) -> bytes:
    """Return the file of a plan that cuts a captured model into stages.

    Raises
    ------
    InputError
        The problem was not captured with ``--stages``.
    """
    if FINGERPRINT not in problem.provenance or WORKSPACE not in problem.provenance:
        expected, remedy = "a captured model to be cut", "make it by milp-plan capture --stages"
        raise InputError([Finding("serial", "no such problem", expected, remedy)])
    cut = _Cut(problem, plan)
    first, *others = (cut.stage(number) for number in range(len(cut.devices)))
    return encode(
        TorchStages(
            format="milp-plan-torch-stages",
            version=1,
            problem=problem.name,
            graph=problem.provenance[FINGERPRINT],
            torch=problem.provenance.get("captured with", "").removeprefix("PyTorch "),
            transfer=cut.transfer(),
            stages=[_without_input(first), *others],
            memory=cut.memory(),
        )
    )


def _without_input(stage: TorchStage) -> TorchStage:
    """Return the first stage: its input has no gradient, and PyTorch runs all in W."""
    stage.weight += stage.backward
    stage.backward = 0
    return stage


class _Cut:
    """A plan read as stages, in the order of the forward pass."""

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.problem = problem
        self.device = {run.operator: run.devices[0] for run in plan.runs}
        self.kind = {op.name: op.kind for op in problem.graph.operators}
        before: dict[str, set[str]] = {
            self.device[op.name]: set() for op in problem.graph.operators
        }
        for value in self._forward_values():
            made = self.device[str(value.producer)]
            for reader in self._readers(value, FORWARD):
                if self.device[reader] != made:
                    before[self.device[reader]].add(made)
        self.devices = list(TopologicalSorter(before).static_order())
        self.stage_of = {name: self.devices.index(device) for name, device in self.device.items()}

    def _forward_values(self) -> Iterator[Value]:
        for value in self.problem.graph.values:
            if value.producer is not None and self.kind[value.producer] == FORWARD:
                yield value

    def _readers(self, value: Value, kind: str) -> list[str]:
        return [name for name in value.consumers if self.kind[name] == kind]

    def transfer(self) -> int:
        """Return the ticks of the slowest transfer from a stage to the next."""
        channels = self.problem.cluster.channels
        if not channels:
            return 0
        last = len(self.devices) - 1
        sizes = [sum(size for _, size in self._arriving(number)) for number in range(last + 1)]
        return channels[0].transfer_ticks(max(sizes), 1) if last else 0

    def memory(self) -> int | None:
        """Return the bytes of the smallest device with a limit, including the workspace."""
        limits = [self.problem.cluster.device(name).memory_bytes for name in self.devices]
        known = [limit for limit in limits if limit is not None]
        return min(known) + int(self.problem.provenance[WORKSPACE]) if known else None

    def _arriving(self, number: int) -> list[tuple[str, int]]:
        """Return values from the stage before, for this stage or for later ones, with bytes."""
        arriving = []
        for value in self._forward_values():
            ends = [self.stage_of[name] for name in self._readers(value, FORWARD)]
            if self.stage_of[str(value.producer)] < number <= max(ends, default=0):
                arriving.append((value.name, value.bytes[FULL]))
        return arriving

    def stage(self, number: int) -> TorchStage:
        """Return modules and costs of a stage."""
        operators = [op for op in self.problem.graph.operators if self.stage_of[op.name] == number]
        ticks: Counter[str] = Counter()
        for op in operators:
            ticks[op.kind] += max(op.options[0].duration_ticks.values())
        resting = self._resting(number)
        forward = [op for op in operators if op.kind == FORWARD]
        return TorchStage(
            modules=list(dict.fromkeys(str(op.group) for op in [*forward, *operators])),
            forward=ticks[FORWARD],
            backward=ticks[BACKWARD_INPUT],
            weight=ticks[BACKWARD_WEIGHT],
            held=self._held(number),
            gradient=self._gradient(number),
            receives=sum(size for _, size in self._arriving(number)),
            workspace=int(self.problem.provenance[WORKSPACE]),
            **resting,
        )

    def _held(self, number: int) -> int:
        """Return the bytes of a micro-batch from a stage's forward pass to its weight gradient.

        They are its inputs, the values that its backward pass reads, and a copy of its outputs:
        PyTorch releases nothing before the weight gradient, and detaches outputs from the graph, so
        that they cannot be shared.
        """
        stored = dict(self._arriving(number))
        for value in self._forward_values():
            backward = any(self.kind[name] != FORWARD for name in value.consumers)
            if backward and self.stage_of[str(value.producer)] == number:
                stored[value.name] = value.bytes[FULL]
        return sum(stored.values()) + self._handed_on(number)

    def _handed_on(self, number: int) -> int:
        last = number + 1 == len(self.devices)
        return 0 if last else sum(size for _, size in self._arriving(number + 1))

    def _gradient(self, number: int) -> int:
        """Return the bytes that a stage stores from its input gradient to its weight gradient.

        They are the results of the former for the latter, and the gradients from the next stage.
        """
        own = sum(
            value.bytes[FULL]
            for value in self.problem.graph.values
            if value.producer is not None
            and self.kind[value.producer] == BACKWARD_INPUT
            and self.stage_of[value.producer] == number
            and any(self.stage_of[r] == number for r in self._readers(value, BACKWARD_WEIGHT))
        )
        return own + self._handed_on(number)

    def _resting(self, number: int) -> dict[str, int]:
        """Return resident bytes of a stage: parameters and inputs, gradients, states."""
        sizes = {"parameters": 0, "gradients": 0, "state": 0}
        seen = set()
        for value in self.problem.graph.values:
            name = value.name.partition(COPY)[0]
            here = any(self.stage_of[reader] == number for reader in value.consumers)
            if value.persistent and here and name not in seen:
                seen.add(name)
                kind = "gradients" if name.startswith(GRADIENT) else "parameters"
                kind = "state" if name.startswith(STATE) else kind
                sizes[kind] += value.bytes[FULL]
        return sizes
