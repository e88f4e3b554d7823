"""Layouts of plans by degrees, and the slices that move from one such plan to another.

After universal checkpointing (Lian et al., arXiv 2406.18820): parameters and optimizer state are
pieces without ranks; data, tensor and pipeline degrees say which rank has which piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from milp_plan.core.errors import Finding, InputError, below_findings

from .problem import Card, ReshardingProblem, Slice
from .tiles import Tile, part_of, slices_between, volume

WEIGHTS, OPTIMIZER = "weights", "optimizer"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor of the model.

    Parameters
    ----------
    name
        Unique.
    shape
        Index of its layer; stages are runs of consecutive layers.
    layer
        Index of its layer; stages are runs of layers.
    split
        Axis that tensor degrees split; ``None`` where each rank of a group has the whole tensor.
    """

    name: str
    shape: tuple[int, ...]
    layer: int
    split: int | None = None


@dataclass(frozen=True)
class Degrees:
    """Layout of a model on a cluster.

    Parameters
    ----------
    hosts, devices_per_host
        Ranks are numbered host after host; tensor groups are innermost, then data, then pipeline.
    data, tensor, pipeline
        Degrees; their product is at most the number of devices.
    optimizer_sharded
        Whether the optimizer state of a rank is split into as many parts as the data degree.
    """

    hosts: tuple[str, ...]
    devices_per_host: int
    data: int
    tensor: int
    pipeline: int
    optimizer_sharded: bool = False

    def findings(self, where: str, layers: int) -> Iterator[Finding]:
        """Yield impossible values."""
        for name in ("devices_per_host", "data", "tensor", "pipeline"):
            yield from below_findings(f"{where}, {name}", getattr(self, name), 1)
        ranks, there = (
            self.data * self.tensor * self.pipeline,
            len(self.hosts) * self.devices_per_host,
        )
        if ranks > there:
            found = f"{ranks} ranks on {there} devices"
            yield Finding(f"{where}, degrees", found, "no more ranks than devices", "lower one")
        if len(set(self.hosts)) < len(self.hosts):
            yield Finding(f"{where}, hosts", "a name twice", "each once", "rename one")
        if self.pipeline > layers:
            found = f"{self.pipeline} stages of {layers} layers"
            yield Finding(f"{where}, pipeline", found, "a layer for each stage", "lower it")

    def stage(self, parameter: Parameter, layers: int) -> int:
        """Return the stage of a parameter."""
        ends = (part_of(layers, stage, self.pipeline)[1] for stage in range(self.pipeline))
        return next(stage for stage, end in enumerate(ends) if parameter.layer < end)

    def tiles(self, parameter: Parameter, state: str, layers: int) -> list[Tile]:
        """Return the tiles of a parameter on the ranks of its stage, in order."""
        stage = self.stage(parameter, layers)
        tiles = []
        for data in range(self.data):
            for tensor in range(self.tensor):
                box: list[tuple[int, int]] = [(0, extent) for extent in parameter.shape]
                if parameter.split is not None:
                    extent = parameter.shape[parameter.split]
                    box[parameter.split] = part_of(extent, tensor, self.tensor)
                if state == OPTIMIZER and self.optimizer_sharded:
                    low, high = box[0]
                    start, stop = part_of(high - low, data, self.data)
                    box[0] = low + start, low + stop
                rank = (stage * self.data + data) * self.tensor + tensor
                host = self.hosts[rank // self.devices_per_host]
                tiles.append(Tile(host, tuple(box)))
        return tiles


@dataclass(frozen=True)
class Migration:
    """A change of plan.

    Parameters
    ----------
    name
        Name of the resulting problem.
    parameters
        Parameters of the model.
    before, after
        Layouts before and after; hosts of the same name are the same.
    weight_bytes, optimizer_bytes
        Bytes of an element of each.

    Raises
    ------
    InputError
        The migration has defects; the error lists all of them.
    """

    name: str
    parameters: tuple[Parameter, ...]
    before: Degrees
    after: Degrees
    weight_bytes: int = 2
    optimizer_bytes: int = 12

    def __post_init__(self) -> None:
        findings = [
            *self.before.findings("before", self.layers),
            *self.after.findings("after", self.layers),
        ]
        for parameter in self.parameters:
            axes = len(parameter.shape)
            if parameter.split is not None and not 0 <= parameter.split < axes:
                where, found = f"parameter {parameter.name!r}, split", str(parameter.split)
                findings.append(Finding(where, found, f"an axis below {axes}", "correct it"))
            if not axes or min(parameter.shape) < 1 or parameter.layer < 0:
                where = f"parameter {parameter.name!r}"
                found = f"shape {parameter.shape}, layer {parameter.layer}"
                findings.append(Finding(where, found, "extents of at least 1", "correct it"))
        if not self.parameters:
            findings.append(Finding("parameters", "none", "at least one", "add one"))
        if findings:
            raise InputError(findings)

    @property
    def layers(self) -> int:
        """Number of layers of the model."""
        return 1 + max((parameter.layer for parameter in self.parameters), default=0)

    @property
    def states(self) -> tuple[tuple[str, int], ...]:
        """Kinds of state that move, with the bytes of an element."""
        pairs = ((WEIGHTS, self.weight_bytes), (OPTIMIZER, self.optimizer_bytes))
        return tuple((state, size) for state, size in pairs if size)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Slices that must go from host to host.

        Parameters of one shape, split along one axis, on the same stages, have the same slices.
        """
        cuts: dict[tuple[object, ...], list[Slice]] = {}
        slices = []
        for parameter in self.parameters:
            sides = (self.before, self.after)
            stages = tuple(side.stage(parameter, self.layers) for side in sides)
            for state, size in self.states:
                key = (parameter.shape, parameter.split, stages, state)
                if key not in cuts:
                    old, new = (side.tiles(parameter, state, self.layers) for side in sides)
                    cuts[key] = list(slices_between(old, new, size))
                prefix = f"{parameter.name} {state}"
                slices += [replace(entry, name=prefix + entry.name) for entry in cuts[key]]
        return tuple(slices)

    def problem(self, bytes_per_s: int) -> ReshardingProblem:
        """Return the resharding problem: a card of that rate per host."""
        hosts = dict.fromkeys((*self.before.hosts, *self.after.hosts))
        cards = tuple(Card(host, bytes_per_s) for host in hosts)
        return ReshardingProblem(self.name, cards, self.slices)

    def needed_bytes(self) -> int:
        """Return the bytes that hosts need after the change, each element once for each host."""
        known: dict[tuple[object, ...], int] = {}
        total = 0
        for parameter in self.parameters:
            stage = self.after.stage(parameter, self.layers)
            for state, size in self.states:
                key = (parameter.shape, parameter.split, stage, state)
                if key not in known:
                    tiles = self.after.tiles(parameter, state, self.layers)
                    boxes = {(tile.host, tile.box) for tile in tiles}
                    known[key] = size * sum(volume(box) for _, box in boxes)
                total += known[key]
        return total

    def missing_bytes(self) -> int:
        """Return the bytes that must be received: those that a host needs and does not have.

        Proof: a host needs each missing element once for all of its devices. The bound is reached:
        a slice goes to exactly the hosts that lack it.
        """
        return sum(entry.size * len(entry.receivers) for entry in self.slices)
