"""A graph under construction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from milp_plan.core import Cluster, ComputationGraph, Operator, Option, Value
from milp_plan.cost.strategies import layout_bytes, reshard_table

from .architecture import Layer


@dataclass
class Draft:
    """Operators and values under construction.

    Parameters
    ----------
    cluster
        Cluster of the problem.
    samples
        Number of samples of one micro-batch.
    requested
        Splits and gangs to offer, from ``milp_plan.cost.parse_labels``.
    """

    cluster: Cluster
    samples: int
    requested: tuple[tuple[str, int], ...]
    operators: dict[str, Operator] = field(default_factory=dict)
    producers: dict[str, str | None] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, list[str]] = field(default_factory=dict)

    def value(self, name: str, size: int, producer: str | None) -> str:
        """Add a value of ``size`` bytes; return its name."""
        self.sizes[name] = size
        self.producers[name] = producer
        self.consumers[name] = []
        return name

    def operator(self, name: str, options: Iterable[Option], layer: Layer, kind: str) -> None:
        """Add an operator of a layer; it consumes what its options read."""
        options = tuple(options)
        grouped = layer.has_weights and kind != "accumulate"
        self.operators[name] = Operator(
            name, options, kind, layer.name if grouped else None, None, layer.block
        )
        for value in options[0].reads:
            self.consumers[value].append(name)

    def graph(self) -> ComputationGraph:
        """Return the graph; each value has the layouts its operators use."""
        layouts: dict[str, dict[str, None]] = {name: {} for name in self.sizes}
        for operator in self.operators.values():
            for option in operator.options:
                for table in (option.reads, option.writes):
                    for name, layout in table.items():
                        layouts[name][layout] = None
        values = []
        for name, size in self.sizes.items():
            producer = self.producers[name]
            values.append(
                Value(
                    name,
                    producer,
                    tuple(self.consumers[name]),
                    {layout: layout_bytes(size, layout) for layout in layouts[name]},
                    reshard_ticks={}
                    if producer is None
                    else reshard_table(size, layouts[name], self.cluster),
                )
            )
        return ComputationGraph(tuple(self.operators.values()), tuple(values))
