"""Files of the contest on intra-operator parallelism (IOPDDL, ASPLOS/EuroSys 2025).

Source: https://github.com/google/iopddl, Apache-2.0. Described in ``instances/formats/iopddl.md``.
"""

from __future__ import annotations

import csv
import gc
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Finding, InputError, Units
from milp_plan.core.sharding import (
    FORBIDDEN,
    ShardingPlan,
    ShardingProblem,
    StrategyTable,
    TransitionTable,
)
from milp_plan.io.defects import quoted
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import Count, decode, plain

TITLE = "sharding contest of ASPLOS 2025, IOPDDL (JSON)"

_SHOWN = 20
"""Largest number of findings of one kind that are listed; the others are counted."""

_Entry = TypeVar("_Entry")

_Index = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_Pair = Annotated[list[_Index], msgspec.Meta(min_length=2, max_length=2)]


class Nodes(msgspec.Struct, frozen=True):
    """Operators of the source: one entry per operator in all three."""

    intervals: list[_Pair]
    costs: list[list[int]]
    usages: list[list[int]]


class Edges(msgspec.Struct, frozen=True):
    """Edges of the source: two operators and a row-major table each."""

    nodes: list[_Pair]
    costs: list[list[int]]


class Contents(msgspec.Struct, frozen=True):
    """The member ``problem`` of the source."""

    nodes: Nodes
    edges: Edges
    usage_limit: Count | None = None
    name: str = ""
    operators: list[str] | None = None
    labels: list[list[str]] | None = None
    provenance: dict[str, str] | None = None
    unit: Literal["ns"] | None = None


class File(msgspec.Struct, frozen=True):
    """A file of the source."""

    problem: Contents


class _Flat(NamedTuple):
    """Offsets and numbers of the three ragged members."""

    costs: tuple[NDArray[np.int64], NDArray[np.int64]]
    usages: tuple[NDArray[np.int64], NDArray[np.int64]]
    tables: tuple[NDArray[np.int64], NDArray[np.int64]]


class _Solution(msgspec.Struct, frozen=True):
    solution: list[int]
    planner: str = "file"
    strategies: list[tuple[str, str]] = []


def can_read(document: Document) -> bool:
    """Return whether the document has the only member of an IOPDDL file."""
    return set(document.top_level) == {"problem"}


def read_iopddl(path: str | Path) -> ShardingProblem:
    """Read a file, compressed or not.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    document = read_document(path, "an IOPDDL file")
    return read(document)


def read(document: Document) -> ShardingProblem:
    """Read a document: costs of 10^18 become masks, everything else stays exact.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of small lists: the collector would walk them again and again
    try:
        contents = decode(document.data, File, document.file).problem
        findings = [*_length_findings(contents), *_edge_findings(contents)]
        flat = _flattened(contents)
        if flat is None:
            findings += _size_findings(contents)
        if findings or flat is None:
            raise InputError(findings).in_file(document.file)
        return _problem(contents, flat, document)
    finally:
        if collecting:
            gc.enable()


def to_json(problem: ShardingProblem) -> bytes:
    """Return a problem as a file of the contest."""
    s, t = problem.strategies, problem.transitions
    cost, pairs = _with_forbidden(s.cost, s.allowed), _with_forbidden(t.cost, t.allowed)
    contents: dict[str, Any] = {
        "name": problem.name,
        "nodes": {
            "intervals": problem.intervals.tolist(),
            "costs": _rows(cost.tolist(), s.offsets),
            "usages": _rows(s.usage.tolist(), s.offsets),
        },
        "edges": {"nodes": t.ends.tolist(), "costs": _rows(pairs.tolist(), t.offsets)},
    }
    if problem.limit is not None:
        contents["usage_limit"] = problem.limit
    if problem.operators != tuple(f"op{number}" for number in range(len(problem.operators))):
        contents["operators"] = problem.operators
    if problem.labels:
        contents["labels"] = _rows(problem.labels, s.offsets)
    if problem.provenance:
        contents["provenance"] = dict(problem.provenance)
    if problem.units is not None:
        contents["unit"] = problem.units.time
    return msgspec.json.encode({"problem": contents}) + b"\n"


def solution_text(plan: ShardingPlan) -> bytes:
    """Return the text of the contest's solution, with names where the plan has them."""
    if not plan.names:
        return json.dumps(list(plan.chosen), default=plain).encode() + b"\n"
    rows = ",\n ".join(json.dumps(pair, ensure_ascii=False) for pair in plan.names)
    chosen = json.dumps(list(plan.chosen), default=plain)
    planner = json.dumps(plan.planner, ensure_ascii=False)
    head = f'{{"solution": {chosen},\n"planner": {planner},\n"strategies": [\n '
    return f"{head}{rows}]}}\n".encode()


STRATEGIES_HEAD = "operator,strategy,name,cost,usage_bytes"


def strategies_csv(problem: ShardingProblem, plan: ShardingPlan) -> bytes:
    """Return the strategy of each operator as CSV: number, name, cost, bytes in use.

    Raises
    ------
    InputError
        The plan is for another problem.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(STRATEGIES_HEAD.split(","))
    table = problem.strategies
    counts = table.counts.tolist()
    whole = len(plan.chosen) == len(counts)
    if not whole or any(not 0 <= p < n for p, n in zip(plan.chosen, counts, strict=True)):
        expected = "a strategy of each operator"
        raise InputError([Finding("solution", "other numbers", expected, "plan the problem again")])
    for number, (name, pick) in enumerate(zip(problem.operators, plan.chosen, strict=True)):
        row = int(table.offsets[number]) + pick
        label = problem.label(number, pick)
        writer.writerow((name, pick, label, table.cost[row], table.usage[row]))
    return text.getvalue().encode()


def read_solution(path: str | Path, problem: ShardingProblem) -> ShardingPlan:
    """Read a solution: a JSON list of strategies, bare or as the member ``solution``.

    Raises
    ------
    InputError
        The file is no such list. The checker decides whether it is a plan of the problem.
    """
    document = read_document(path, "a solution: a JSON list of strategies")
    try:
        chosen = msgspec.json.decode(document.data, type=list[int] | _Solution)
    except (msgspec.DecodeError, RecursionError) as error:
        finding = Finding(
            "file", str(error), "a JSON list with a strategy per operator", "write it again"
        )
        raise InputError([finding]).in_file(document.file) from None
    if isinstance(chosen, list):
        return ShardingPlan(problem.name, tuple(chosen), planner="file")
    findings = list(_name_findings(chosen, problem))
    if findings:
        raise InputError(findings).in_file(document.file)
    names = tuple(chosen.strategies)
    return ShardingPlan(problem.name, tuple(chosen.solution), planner=chosen.planner, names=names)


def _name_findings(chosen: _Solution, problem: ShardingProblem) -> Iterator[Finding]:
    """Yield names that the problem does not have: the plan is for another one."""
    if not chosen.strategies:
        return
    remedy = "name the instance and the plan that belong together"
    picks, count = chosen.solution, len(problem.operators)
    if len(picks) == count and all(
        0 <= pick < most
        for pick, most in zip(picks, problem.strategies.counts.tolist(), strict=True)
    ):
        known = problem.names(picks)
        if not known:
            yield Finding("strategies", "names", "none: the problem has no names", remedy)
        pairs = zip(chosen.strategies, known, strict=False)
        place = next((k for k, (text, name) in enumerate(pairs) if text != name), None)
        if place is not None:
            found, (name, label) = " by ".join(chosen.strategies[place]), known[place]
            yield Finding(f"strategies[{place}]", repr(found), f"{name} by {label}", remedy)
    if len(chosen.strategies) != len(picks):
        found = f"{len(chosen.strategies)} names for {len(picks)} choices"
        yield Finding("strategies", found, "one for each choice", "correct it")


def is_solution(document: Document) -> bool:
    """Return whether the document is a list of strategies, bare or as the member ``solution``."""
    try:
        msgspec.json.decode(document.data, type=list[int] | _Solution)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _problem(contents: Contents, flat: _Flat, document: Document) -> ShardingProblem:
    nodes, edges = contents.nodes, contents.edges
    (offsets, cost), (_, usage), (entries, pairs) = flat
    name = contents.name or document.path.name.removesuffix(".gz").removesuffix(".json")
    strategies = StrategyTable(offsets, cost, usage, cost < FORBIDDEN)
    ends = np.array(edges.nodes, dtype=np.int64).reshape(-1, 2)
    transitions = TransitionTable(ends, entries, pairs, pairs < FORBIDDEN)
    return ShardingProblem(
        name,
        tuple(contents.operators or (f"op{number}" for number in range(len(nodes.costs)))),
        strategies,
        transitions,
        np.array(nodes.intervals, dtype=np.int64).reshape(-1, 2),
        contents.usage_limit,
        tuple(itertools.chain.from_iterable(contents.labels or ())),
        contents.provenance or {"file": document.path.name},
        None if contents.unit is None else Units(contents.unit),
    )


def _flat(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    entries = np.fromiter(
        itertools.chain.from_iterable(rows), dtype=np.int64, count=int(offsets[-1])
    )
    return offsets, entries


def _rows(entries: Sequence[_Entry], offsets: NDArray[np.int64]) -> list[list[_Entry]]:
    return [list(entries[start:stop]) for start, stop in itertools.pairwise(offsets.tolist())]


def _with_forbidden(cost: NDArray[np.int64], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.where(allowed, cost, FORBIDDEN)


def _limited(findings: Iterator[Finding], where: str) -> list[Finding]:
    """Return the first findings of a kind, and the number of the others."""
    shown = list(itertools.islice(findings, _SHOWN))
    more = sum(1 for _ in findings)
    if more:
        shown.append(
            Finding(where, f"{more} more defects of this kind", "none", "correct them too")
        )
    return shown


def _length_findings(contents: Contents) -> list[Finding]:
    nodes, edges = contents.nodes, contents.edges
    count = len(nodes.costs)
    findings = []
    for field, length, expected in (
        ("problem.nodes.intervals", len(nodes.intervals), count),
        ("problem.nodes.usages", len(nodes.usages), count),
        ("problem.edges.costs", len(edges.costs), len(edges.nodes)),
        (
            "problem.operators",
            count if contents.operators is None else len(contents.operators),
            count,
        ),
        ("problem.labels", count if contents.labels is None else len(contents.labels), count),
    ):
        if length != expected:
            findings.append(Finding(field, f"{length} entries", f"{expected}", "give one for each"))
    if not count:
        findings.append(Finding("problem.nodes.costs", "no operators", "at least one", "add one"))

    def rows() -> Iterator[Finding]:
        for number, (costs, usages) in enumerate(zip(nodes.costs, nodes.usages, strict=False)):
            if not costs:
                where = f"problem.nodes.costs[{number}]"
                yield Finding(where, "no strategies", "at least one", "add a strategy")
            if len(usages) != len(costs):
                where = f"problem.nodes.usages[{number}]"
                expected = f"{len(costs)}, one per strategy"
                yield Finding(where, f"{len(usages)} entries", expected, "give one for each")

    def words() -> Iterator[Finding]:
        for number, (costs, labels) in enumerate(
            zip(nodes.costs, contents.labels or (), strict=False)
        ):
            if len(labels) != len(costs):
                where, given = f"problem.labels[{number}]", f"{len(labels)} entries"
                expected = f"{len(costs)}, one per strategy"
                yield Finding(where, given, expected, "give one for each")

    return findings + _limited(rows(), "problem.nodes") + _limited(words(), "problem.labels")


def _edge_findings(contents: Contents) -> list[Finding]:
    costs = contents.nodes.costs
    count = len(costs)

    def rows() -> Iterator[Finding]:
        edges = contents.edges
        tables = itertools.chain(edges.costs, itertools.repeat(None))
        for number, ((first, second), table) in enumerate(zip(edges.nodes, tables, strict=False)):
            if not (0 <= first < count and 0 <= second < count) or first == second:
                where = f"problem.edges.nodes[{number}]"
                expected = f"two different operators from 0 to {count - 1}"
                yield Finding(where, quoted([first, second]), expected, "correct the numbers")
            elif table is not None and len(table) != len(costs[first]) * len(costs[second]):
                expected = f"{len(costs[first])} x {len(costs[second])}, one per pair of strategies"
                where = f"problem.edges.costs[{number}]"
                yield Finding(where, f"{len(table)} costs", expected, "give the whole table")

    return _limited(rows(), "problem.edges")


def _flattened(contents: Contents) -> _Flat | None:
    """Concatenate the numbers; ``None`` if one of them is out of range."""
    nodes, edges = contents.nodes, contents.edges
    try:
        flat = _Flat(*(_flat(rows) for rows in (nodes.costs, nodes.usages, edges.costs)))
    except OverflowError:
        return None
    for (_, numbers), least in zip(flat, (-FORBIDDEN, 0, -FORBIDDEN), strict=True):
        if len(numbers) and (numbers.min() < least or numbers.max() > FORBIDDEN):
            return None
    return flat


def _size_findings(contents: Contents) -> list[Finding]:
    def rows() -> Iterator[Finding]:
        for field, tables, least in (
            ("problem.nodes.costs", contents.nodes.costs, -FORBIDDEN),
            ("problem.nodes.usages", contents.nodes.usages, 0),
            ("problem.edges.costs", contents.edges.costs, -FORBIDDEN),
        ):
            for number, row in enumerate(tables):
                if row and (max(row) > FORBIDDEN or min(row) < least):
                    column = next(i for i, x in enumerate(row) if x > FORBIDDEN or x < least)
                    where = f"{field}[{number}][{column}]"
                    expected = f"an integer from {least} to 10^18 (not allowed)"
                    yield Finding(where, str(row[column]), expected, "correct it")

    return _limited(rows(), "problem")
