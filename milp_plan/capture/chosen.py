"""A sharding plan of a captured step as a placement file, which PyTorch runs.

The labels of the problem (:mod:`.sharding`) hold the placements that each node reads, writes and
retains. Where a node retains another placement than it writes, that is a pin; where a reader takes
another one than its source retains, a read of its own. Their collectives are those of the plan.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import get_args

from milp_plan.core import Finding, InputError
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.io.placement_wire import Axis, Collective, TorchPlacements

from .checkpoints import FINGERPRINT
from .layouts import collectives
from .placements import placements_to_json
from .sharding import CONSTANT, INPUT, UPDATE

AXES = ("x", "y")
"""Names of the mesh's axes."""


_PLACEMENTS = r"((R|P|S\(\d{1,3}\))+|-)(,((R|P|S\(\d{1,3}\))+|-))*"
_INSIDE = "|".join(get_args(Collective))
LABEL = re.compile(rf"({_PLACEMENTS})? > ({_PLACEMENTS})?( > {_PLACEMENTS})?( \+ ({_INSIDE}))*")
"""Pattern of a label."""


@dataclass(frozen=True)
class PlacementChoice:
    """Placements of a node.

    Parameters
    ----------
    reads, raw
        Placements read and written.
    kept
        Placement of the (first) result for its readers.
    inside
        Collectives inside the operator, by kind.
    """

    reads: tuple[str, ...]
    raw: tuple[str, ...]
    kept: str
    inside: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: str) -> PlacementChoice:
        """Read a label."""
        placed, *inside = label.split(" + ")
        reads, raw, *retained = (part.strip() for part in placed.split(">"))
        made = tuple(filter(None, raw.split(",")))
        read = tuple(filter(None, reads.split(",")))
        return cls(read, made, (retained or [*made, ""])[0], tuple(inside))


def chosen_placements(problem: ShardingProblem, plan: ShardingPlan) -> TorchPlacements:
    """Return the placements of a plan.

    Parameters
    ----------
    problem
        Problem of a captured graph by :func:`~milp_plan.capture.sharding.sharding`.
    plan
        A valid plan of it.

    Raises
    ------
    InputError
        The problem is not of a captured graph.
    """
    choices, sources = choices_of(problem, plan), sources_of(problem)
    sizes = [int(size) for size in problem.provenance["mesh"].split("x")]
    placements = TorchPlacements(
        format="milp-plan-torch-placements",
        version=1,
        problem=problem.name,
        graph=problem.provenance[FINGERPRINT],
        torch=problem.provenance.get("captured with", "").removeprefix("PyTorch "),
        mesh=[Axis(name, size) for name, size in zip(AXES, sizes, strict=False)],
        inputs={},
        gradients={},
    )
    placements.collectives = dict(_decided(problem, choices, sources, placements))
    return placements


def choices_of(problem: ShardingProblem, plan: ShardingPlan) -> list[PlacementChoice]:
    """Return the placements of each node.

    Raises
    ------
    InputError
        The problem is not of a captured graph.
    """
    if FINGERPRINT not in problem.provenance or not problem.labels:
        expected, remedy = "one of a captured model", "make it by milp-plan capture --sharding 2"
        raise InputError([Finding("problem", repr(problem.name), expected, remedy)])
    starts = problem.strategies.offsets[:-1].tolist()
    labels = [problem.labels[s + pick] for s, pick in zip(starts, plan.chosen, strict=True)]
    triples = zip(problem.operators, labels, sources_of(problem), strict=True)
    findings = [
        Finding(f"label of {name!r}", repr(label), _expected(len(sources)), "capture it again")
        for name, label, sources in triples
        if not LABEL.fullmatch(label) or len(PlacementChoice.of(label).reads) != len(sources)
    ]
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)?", problem.provenance.get("mesh", "")):
        found = repr(problem.provenance.get("mesh"))
        findings.append(Finding("provenance, 'mesh'", found, "such as '2x2'", "capture it again"))
    if findings:
        raise InputError(findings)
    return [PlacementChoice.of(label) for label in labels]


def _expected(reads: int) -> str:
    return f"{reads} placements read, those written, and at most one kept: 'S(0),R > P > R'"


def sources_of(problem: ShardingProblem) -> list[list[int]]:
    """Return the nodes that each node reads from, in the order of its tensors."""
    sources: list[list[int]] = [[] for _ in problem.operators]
    for source, reader in problem.transitions.ends.tolist():
        sources[reader].append(source)
    return sources


def chosen_text(problem: ShardingProblem, plan: ShardingPlan) -> bytes:
    """Return the text of the file.

    Raises
    ------
    InputError
        See :func:`chosen_placements`.
    """
    return placements_to_json(chosen_placements(problem, plan))


def _decided(
    problem: ShardingProblem,
    choices: list[PlacementChoice],
    sources: list[list[int]],
    placements: TorchPlacements,
) -> Counter[Collective]:
    """Write all placements into the file's tables; return the collectives, equal copies once."""
    sent = Counter[Collective]()
    copies: set[tuple[int, str]] = set()
    for name, choice, row in zip(problem.operators, choices, sources, strict=True):
        if name.startswith(INPUT):
            placements.inputs[name.removeprefix(INPUT)] = choice.kept
        elif name.startswith(UPDATE):
            placements.gradients[name.removeprefix(UPDATE)] = choice.reads[0]
            sent += collectives(choices[row[0]].kept, choice.reads[0])
        elif not name.startswith(CONSTANT):
            sent.update(choice.inside)  # type: ignore[arg-type]
            if choice.raw and choice.kept != choice.raw[0]:
                placements.pins[name] = choice.kept
                sent += collectives(choice.raw[0], choice.kept)
            for source, required in zip(row, choice.reads, strict=True):
                retained = choices[source].kept
                if len(choices[source].raw) > 1 or required == retained:
                    continue
                read = problem.operators[source].removeprefix(INPUT).removeprefix(CONSTANT)
                placements.reads.setdefault(name, {})[read] = required
                if (source, required) not in copies:
                    copies.add((source, required))
                    sent += collectives(retained, required)
    return sent
