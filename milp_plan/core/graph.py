"""The computation graph: operators with options, and the values that flow between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

FULL = "full"
"""The layout in which every device of a site has the whole value."""

FORWARD_KIND = "forward"
"""Kind of operators of the forward pass; by default only they may run again."""

UPDATE_KIND = "update"
"""Kind of operators that run once per step, for any number of micro-batches."""

ADDED = {"added": True}
"""Metadata of fields that were added later: their defaults are not part of a fingerprint."""


@dataclass(frozen=True)
class Option:
    """One way to run an operator.

    Parameters
    ----------
    name
        Strategy label, unique within the operator.
    duration_ticks
        Ticks per device class; a class that is missing cannot run it. On a site of several
        classes the slowest counts.
    gang
        Number of devices that run it together.
    workspace_bytes
        Bytes that it needs on each device of the site while it runs.
    reads
        Input value -> layout that the option reads; ``FULL`` if missing.
    writes
        Output value -> layout that the option writes; ``FULL`` if missing.
    """

    name: str
    duration_ticks: Mapping[str, int]
    gang: int = 1
    workspace_bytes: int = 0
    reads: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)

    def layout_read(self, value: str) -> str:
        """Return the layout in which this option reads an input value."""
        return self.reads.get(value, FULL)

    def layout_written(self, value: str) -> str:
        """Return the layout in which this option writes an output value."""
        return self.writes.get(value, FULL)


@dataclass(frozen=True)
class Operator:
    """A node of the graph.

    Parameters
    ----------
    name
        Name, unique in the graph.
    kind
        ``forward``, ``backward-input``, ``backward-weight``, ``update``, ``collective``, ...
    options
        One or more options.
    group
        Operators of one colocation group run on the same devices (law 2).
    micro_batch
        Index of the micro-batch, where the graph was unrolled.
    block
        Label of the repeated block (for example a layer) it belongs to.
    recomputable
        Whether a plan may run it more than once; each run makes copies of its own.
    """

    name: str
    options: tuple[Option, ...]
    kind: str = "forward"
    group: str | None = None
    micro_batch: int | None = None
    block: str | None = None
    recomputable: bool = field(default=False, metadata=ADDED)

    def option(self, name: str) -> Option:
        """Return the option of that name; ``KeyError`` if there is none."""
        for option in self.options:
            if option.name == name:
                return option
        raise KeyError(name)


@dataclass(frozen=True)
class Value:
    """A tensor.

    Parameters
    ----------
    name
        Name, unique in the graph.
    producer
        The operator that makes it; ``None`` for a persistent value (weights, optimizer state,
        input data), which every device that runs one of its consumers stores all the time.
    consumers
        Operators that read it.
    bytes
        Layout -> bytes on each device that has the value in that layout.
    transfer_bytes
        Layout -> bytes that are sent to each receiving device, where different from ``bytes``.
    messages
        Number of messages of a transfer; more than one for a bundle of tensors.
    reshard_ticks
        (layout, layout) -> ticks of the collective that changes the layout. A pair that is
        missing is not allowed.
    kept
        Whether its native copy stays to the end of the plan, like a result; ``None``: only if no
        operator reads it. Has no effect on persistent values, which always stay.
    """

    name: str
    producer: str | None
    consumers: tuple[str, ...]
    bytes: Mapping[str, int]
    transfer_bytes: Mapping[str, int] = field(default_factory=dict)
    messages: int = 1
    reshard_ticks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    kept: bool | None = field(default=None, metadata=ADDED)

    @property
    def is_kept(self) -> bool:
        """Whether an operator makes it and its native copy stays to the end of the plan."""
        if self.producer is None:
            return False
        return not self.consumers if self.kept is None else self.kept

    def read_by(self, consumers: Iterable[str]) -> Value:
        """Return the value with other consumers; whether it is kept does not change."""
        changed = replace(self, consumers=tuple(consumers))
        return changed if changed.is_kept == self.is_kept else replace(changed, kept=self.is_kept)

    @property
    def persistent(self) -> bool:
        """Whether the value exists before the first operator runs."""
        return self.producer is None

    def payload(self, layout: str) -> int:
        """Return the bytes that are sent to each receiving device of a copy in ``layout``."""
        return self.transfer_bytes.get(layout, self.bytes[layout])


@dataclass(frozen=True)
class ComputationGraph:
    """Operators and values. Every value is an edge from its producer to each consumer."""

    operators: tuple[Operator, ...]
    values: tuple[Value, ...] = ()

    @cached_property
    def _operators(self) -> dict[str, Operator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def _values(self) -> dict[str, Value]:
        return {value.name: value for value in self.values}

    def operator(self, name: str) -> Operator:
        """Return the operator of that name; ``KeyError`` if there is none."""
        return self._operators[name]

    def value(self, name: str) -> Value:
        """Return the value of that name; ``KeyError`` if there is none."""
        return self._values[name]

    def has_operator(self, name: str) -> bool:
        """Whether an operator of that name exists."""
        return name in self._operators

    def has_value(self, name: str) -> bool:
        """Whether a value of that name exists."""
        return name in self._values

    @cached_property
    def inputs(self) -> dict[str, tuple[Value, ...]]:
        """Operator -> values it reads, persistent ones included, in value order."""
        found: dict[str, list[Value]] = {operator.name: [] for operator in self.operators}
        for value in self.values:
            for consumer in value.consumers:
                found[consumer].append(value)
        return {name: tuple(values) for name, values in found.items()}

    @cached_property
    def outputs(self) -> dict[str, tuple[Value, ...]]:
        """Operator -> values it makes, in value order."""
        found: dict[str, list[Value]] = {operator.name: [] for operator in self.operators}
        for value in self.values:
            if value.producer is not None:
                found[value.producer].append(value)
        return {name: tuple(values) for name, values in found.items()}

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """Operator -> operators whose values it reads, each once."""
        return {
            name: tuple(dict.fromkeys(v.producer for v in values if v.producer is not None))
            for name, values in self.inputs.items()
        }

    @cached_property
    def successors(self) -> dict[str, tuple[str, ...]]:
        """Operator -> operators that read its values, each once."""
        return {
            name: tuple(dict.fromkeys(c for v in values for c in v.consumers))
            for name, values in self.outputs.items()
        }

    @cached_property
    def topological_order(self) -> tuple[str, ...]:
        """Operator names, producers first; ties keep file order.

        Raises
        ------
        ValueError
            The graph has a cycle; the message names the operators on it.
        """
        missing = {name: len(before) for name, before in self.predecessors.items()}
        ready = [operator.name for operator in self.operators if missing[operator.name] == 0]
        order: list[str] = []
        for name in ready:  # grows while it is read
            order.append(name)
            for successor in self.successors[name]:
                missing[successor] -= 1
                if missing[successor] == 0:
                    ready.append(successor)
        if len(order) < len(self.operators):
            raise ValueError("cycle: " + " -> ".join(self._find_cycle(set(order))))
        return tuple(order)

    @cached_property
    def depth_first_order(self) -> tuple[str, ...]:
        """Operators in a topological order that follows what became ready last."""
        missing = {name: len(self.predecessors[name]) for name in self.topological_order}
        stack = [name for name in reversed(self.topological_order) if not missing[name]]
        order: list[str] = []
        while stack:
            order.append(stack.pop())
            for reader in reversed(self.successors[order[-1]]):
                missing[reader] -= 1
                if not missing[reader]:
                    stack.append(reader)
        return tuple(order)

    @cached_property
    def ancestors(self) -> dict[str, frozenset[str]]:
        """Operator -> operators that precede it."""
        return _closure(self.topological_order, self.predecessors)

    @cached_property
    def descendants(self) -> dict[str, frozenset[str]]:
        """Operator -> operators that follow it."""
        return _closure(self.topological_order[::-1], self.successors)

    def _find_cycle(self, done: set[str]) -> list[str]:
        walk: list[str] = []
        name = next(operator.name for operator in self.operators if operator.name not in done)
        while name not in walk:
            walk.append(name)
            name = next(before for before in self.predecessors[name] if before not in done)
        return [name, *reversed(walk[walk.index(name) :])]

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Colocation group -> its operators, in file order."""
        members_of: dict[str, list[str]] = {}
        for operator in self.operators:
            if operator.group is not None:
                members_of.setdefault(operator.group, []).append(operator.name)
        return {group: tuple(members) for group, members in members_of.items()}

    def to_networkx(self) -> networkx.DiGraph[str]:
        """Return the precedence graph; nodes are operator names, edges carry their values."""
        import networkx

        digraph: networkx.DiGraph[str] = networkx.DiGraph()
        for operator in self.operators:
            digraph.add_node(operator.name, kind=operator.kind, group=operator.group)
        for value in self.values:
            for consumer in value.consumers:
                if value.producer is None:
                    continue
                if not digraph.has_edge(value.producer, consumer):
                    digraph.add_edge(value.producer, consumer, values=[])
                digraph.edges[value.producer, consumer]["values"].append(value.name)
        return digraph

    def unroll(self, num_microbatches: int) -> ComputationGraph:
        """Return the graph of several micro-batches.

        Operators of kind ``update`` and persistent values stay single; everything else is copied
        as ``name@m``. Copies of one operator share a colocation group (they use the same
        weights), and the update reads the values of all micro-batches.

        Parameters
        ----------
        num_microbatches
            Number of micro-batches, at least 1.

        Raises
        ------
        ValueError
            ``num_microbatches`` is below 1.
        """
        if num_microbatches < 1:
            raise ValueError(f"num_microbatches is {num_microbatches}, expected at least 1")
        batches = range(num_microbatches)
        single = {op.name for op in self.operators if op.kind == UPDATE_KIND}

        def names(operator: str, batch: int | None) -> tuple[str, ...]:
            if operator in single:
                return (operator,)
            return tuple(f"{operator}@{m}" for m in (batches if batch is None else (batch,)))

        operators: list[Operator] = []
        for operator in self.operators:
            if operator.name in single:
                operators.append(self._rename_reads(operator, batches))
                continue
            group = operator.group or operator.name
            operators += [
                self._rename_reads(replace(operator, group=group, micro_batch=m), (m,), f"@{m}")
                for m in batches
            ]
        values: list[Value] = []
        for value in self.values:
            if value.producer is None or value.producer in single:
                consumers = tuple(n for c in value.consumers for n in names(c, None))
                values.append(replace(value, consumers=consumers))
                continue
            for m in batches:
                consumers = tuple(n for c in value.consumers for n in names(c, m))
                values.append(
                    replace(
                        value,
                        name=f"{value.name}@{m}",
                        producer=f"{value.producer}@{m}",
                        consumers=consumers,
                    )
                )
        return ComputationGraph(tuple(operators), tuple(values))

    def _rename_reads(
        self, operator: Operator, batches: range | tuple[int, ...], suffix: str = ""
    ) -> Operator:
        """Return an unrolled operator with layout tables for the unrolled values."""

        def renamed(layouts: Mapping[str, str]) -> dict[str, str]:
            result: dict[str, str] = {}
            for name, layout in layouts.items():
                producer = self.value(name).producer
                shared = producer is None or self.operator(producer).kind == UPDATE_KIND
                for m in batches:
                    result[name if shared else f"{name}@{m}"] = layout
            return result

        options = tuple(
            replace(option, reads=renamed(option.reads), writes=renamed(option.writes))
            for option in operator.options
        )
        return replace(operator, name=operator.name + suffix, options=options)


def _closure(
    order: Iterable[str], direct: Mapping[str, Sequence[str]]
) -> dict[str, frozenset[str]]:
    reached: dict[str, frozenset[str]] = {}
    for name in order:
        reached[name] = frozenset(direct[name]).union(*(reached[other] for other in direct[name]))
    return reached


def depth(graph: ComputationGraph) -> int:
    """Return the number of operators on the longest path."""
    lengths: dict[str, int] = {}
    for name in graph.topological_order:
        lengths[name] = 1 + max((lengths[other] for other in graph.predecessors[name]), default=0)
    return max(lengths.values(), default=0)
