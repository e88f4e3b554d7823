"""Cuts back-propagation at boundaries between blocks, and adds auxiliary heads in its place.

After Laskin et al., "Parallel training of deep networks with local updates" (arXiv 2012.03837):
*greedy* cuts behind every block, *chunked* behind some, *overlapping* lets the gradient of a
block's own loss reach the block before it and no further. The effect on accuracy is unknown: it is
another training step, which may need more repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from milp_plan.core import (
    FULL,
    ComputationGraph,
    Finding,
    InputError,
    Operator,
    Option,
    PlanningProblem,
    Value,
)

HEAD, PASS = "auxiliary", "backward-input"
"""Kinds of added operators: heads, and passes of a head's gradient to the block before."""

HeadTime = Callable[[int, str], int]
"""Index of a block and a device class -> ticks of its head for one micro-batch, both ways."""


def blocks_of(problem: PlanningProblem) -> tuple[str, ...]:
    """Return the blocks of forward operators, in the order in which they begin."""
    graph = problem.graph
    names = (graph.operator(name) for name in graph.topological_order)
    return tuple(dict.fromkeys(o.block for o in names if o.kind == "forward" and o.block))


def with_local_updates(
    problem: PlanningProblem,
    cuts: Collection[int],
    head_ticks: HeadTime,
    *,
    overlapping: bool = False,
    final_head: bool = False,
) -> PlanningProblem:
    """Cut back-propagation of a training graph.

    Parameters
    ----------
    problem
        A training step whose operators name their blocks.
    cuts
        Boundaries by the block before them: values of backward operators behind boundary k no
        longer reach those before it.
    head_ticks
        Cost of a head: forward, loss and backward.
    overlapping
        Whether the next block's own loss still reaches the block before each cut: by an
        input-gradient pass of its head alone, for which the next block has a head, too.
    final_head
        Whether the last block gets a head, for a graph without a loss of its own.

    Raises
    ------
    InputError
        The problem names no blocks, a boundary does not exist, no gradient crosses it, or a
        block has nothing that a head could read.
    """
    blocks = blocks_of(problem)
    findings = list(_findings(problem, blocks, cuts))
    if findings:
        raise InputError(findings)
    surgery = _Surgery(problem, blocks, frozenset(cuts), head_ticks)
    surgery.cut(overlapping=overlapping, final_head=final_head)
    graph = ComputationGraph(tuple(surgery.operators), tuple(surgery.values))
    return problem.variant(graph=graph)


def _findings(
    problem: PlanningProblem, blocks: tuple[str, ...], cuts: Collection[int]
) -> list[Finding]:
    if len(blocks) < 2 or not any(o.kind.startswith("backward") for o in problem.graph.operators):
        found = f"{len(blocks)} blocks"
        expected, remedy = "a training step of several blocks", "name another instance"
        return [Finding("operators, block", found, expected, remedy)]
    last = len(blocks) - 2
    return [
        Finding("cuts", str(cut), f"boundaries 0 to {last}", "leave it out")
        for cut in sorted(cuts)
        if not 0 <= cut <= last
    ]


class _Surgery:
    """Operators and values of a graph while it is cut."""

    def __init__(
        self,
        problem: PlanningProblem,
        blocks: tuple[str, ...],
        cuts: frozenset[int],
        head_ticks: HeadTime,
    ) -> None:
        self.problem, self.cuts, self.head_ticks = problem, cuts, head_ticks
        self.last = len(blocks) - 1
        self.place = {name: at for at, name in enumerate(blocks)}
        self.by_name = {entry.name: entry for entry in problem.graph.operators}
        self.operators = list(problem.graph.operators)
        self.values = list(problem.graph.values)
        self.lost: dict[tuple[int, int | None], dict[str, int]] = {}

    def block(self, name: str) -> int | None:
        """Return the position of the block of an operator."""
        return self.place.get(self.by_name[name].block or "")

    def backward(self, name: str) -> bool:
        return self.by_name[name].kind.startswith("backward")

    def cut(self, *, overlapping: bool, final_head: bool) -> None:
        """Drop values that cross a cut backwards, add heads and, if requested, passes."""
        self.values = [cut_value for value in self.values if (cut_value := self.without_cut(value))]
        headed = set(self.cuts) | ({self.last} if final_head else set())
        if overlapping:
            headed |= {cut + 1 for cut in self.cuts if cut + 1 < self.last or final_head}
        batches = sorted({o.micro_batch for o in self.operators if o.kind == "forward"}, key=str)
        for at in sorted(headed):
            for batch in batches:
                self.add_head(at, batch, overlapping=overlapping)
        self.tidy()

    def tidy(self) -> None:
        """Remove layouts of values from options where the values are gone or no longer read."""
        made = {(v.producer, v.name) for v in self.values}
        read = {(reader, v.name) for v in self.values for reader in v.consumers}
        self.operators = [
            replace(
                operator,
                options=tuple(
                    replace(
                        option,
                        reads={
                            value: layout
                            for value, layout in option.reads.items()
                            if (operator.name, value) in read
                        },
                        writes={
                            value: layout
                            for value, layout in option.writes.items()
                            if (operator.name, value) in made
                        },
                    )
                    for option in operator.options
                ),
            )
            for operator in self.operators
        ]

    def without_cut(self, value: Value) -> Value | None:
        """Return a value without readers beyond a cut; ``None`` where none is left."""
        home = None if value.producer is None else self.block(value.producer)
        if value.producer is None or home is None or not self.backward(value.producer):
            return value
        remaining = []
        for reader in value.consumers:
            there = self.block(reader)
            crossed = [cut for cut in self.cuts if there is not None and there <= cut < home]
            if not crossed or not self.backward(reader):
                remaining.append(reader)
                continue
            key = (max(there or 0, min(crossed)), self.by_name[reader].micro_batch)
            readers = self.lost.setdefault(key, {})
            readers[reader] = readers.get(reader, 0) + value.bytes[FULL]
        return value.read_by(remaining) if remaining or value.is_kept else None

    def add_head(self, at: int, batch: int | None, *, overlapping: bool) -> None:
        """Add the head of a block, and its gradients for the block's backward operators."""
        outputs = [
            (place, value)
            for place, value in enumerate(self.values)
            if value.producer is not None
            and self.block(value.producer) == at
            and self.by_name[value.producer].kind == "forward"
            and self.by_name[value.producer].micro_batch == batch
        ]
        leaving = [
            (place, value)
            for place, value in outputs
            if any(
                self.by_name[r].kind == "forward" and self.block(r) != at for r in value.consumers
            )
        ]
        makers = [value.producer for _, value in leaving or outputs if value.producer]
        if not makers:
            name = next(block for block, place in self.place.items() if place == at)
            found = "no forward operator that makes a value"
            found += "" if batch is None else f" in micro-batch {batch}"
            where, expected = f"operators of block {name!r}", "one, whose value its head reads"
            raise InputError([Finding(where, found, expected, "correct block or micro-batch")])
        maker = self.by_name[makers[-1]]
        tag = "" if batch is None else f"@{batch}"
        name = f"A{at}{tag}"
        for place, value in leaving or outputs[-1:]:
            self.values[place] = replace(value, consumers=(*value.consumers, name))
        head = self.like(maker, name, HEAD, lambda device: self.head_ticks(at, device))
        self.operators.append(head)
        self.by_name[name] = head
        readers = self.lost.get((at, batch), {})
        if not readers and at == self.last:
            readers = dict.fromkeys(self.first_backward(batch), 0)
        passed: list[str] = []
        if overlapping and at - 1 in self.cuts:
            passed.append(self.add_pass(at, batch, maker))
        size = {FULL: max(readers.values(), default=0)}
        self.values.append(Value(f"h{at}{tag}", name, (*readers, *passed), size))

    def first_backward(self, batch: int | None) -> list[str]:
        """Return backward operators of the last block that wait for no other backward operator."""
        after = {
            r for v in self.values if v.producer and self.backward(v.producer) for r in v.consumers
        }
        return [
            o.name
            for o in self.operators
            if o.kind.startswith("backward")
            and o.micro_batch == batch
            and self.place.get(o.block or "") == self.last
            and o.name not in after
        ]

    def add_pass(self, at: int, batch: int | None, maker: Operator) -> str:
        """Add the pass that carries the gradient of a block's own head to the block before it."""
        tag = "" if batch is None else f"@{batch}"
        mine = [
            o
            for o in self.operators
            if o.micro_batch == batch and self.place.get(o.block or "") == at
        ]
        split = [o for o in mine if o.kind == "backward-input"]
        joint = [o for o in mine if o.kind == "backward"]

        def ticks(device: str) -> int:
            whole = sum(o.options[0].duration_ticks[device] for o in split)
            return whole + sum(-(-o.options[0].duration_ticks[device] // 2) for o in joint)

        name = f"X{at}{tag}"
        entry = self.like(maker, name, PASS, ticks)
        self.operators.append(entry)
        self.by_name[name] = entry
        readers = self.lost.get((at - 1, batch), {})
        size = {FULL: max(readers.values(), default=0)}
        self.values.append(Value(f"o{at}{tag}", name, tuple(readers), size))
        return name

    def like(self, maker: Operator, name: str, kind: str, ticks: Callable[[str], int]) -> Operator:
        """Return an operator that runs where another one does."""
        classes = maker.options[0].duration_ticks
        option = Option("run", {device: ticks(device) for device in classes})
        alone = all(way.gang == 1 for way in maker.options)
        group = maker.group if alone else None  # an operator on one device is not part of a gang
        return Operator(name, (option,), kind, group, maker.micro_batch, maker.block)
