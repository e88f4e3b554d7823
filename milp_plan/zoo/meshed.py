"""Architectures on device meshes: a strategy for each layer, and in one problem place and time.

:func:`sharding` returns a problem of strategies alone, on one mesh. :func:`meshed` returns a
planning problem: each layer may run on one device or on a group of devices that forms one of the
requested meshes, with any strategy of that mesh as an option. Collectives inside a layer are part
of its duration; pending sums and changes of layout are resharding, which occupies channels, not
devices, and overlaps with other work. On one mesh it costs the ticks of
:mod:`milp_plan.cost.mesh.layouts`; from one mesh to another, the cheapest path to the whole tensor,
of which each device of the other mesh retains its part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from milp_plan.core import Cluster, Finding, InputError, Objective, PlanningProblem
from milp_plan.core.sharding import ShardingProblem
from milp_plan.cost.clusters import plain, sources, spec_of
from milp_plan.cost.devices import LinkSpec
from milp_plan.cost.mesh import (
    Mesh,
    MeshGraph,
    MeshOperator,
    Setting,
    Training,
    extents,
    mesh,
    mesh_problem,
)

from .architecture import Architecture, Layer
from .build import check_counts
from .mesh_draft import MeshedDraft


def mesh_graph(architecture: Architecture, batch: int, *, training: bool = False) -> MeshGraph:
    """Return loops and tensors of all layers for a batch; the loss counts in training alone.

    Raises
    ------
    InputError
        A layer without a description of its loops, or a batch below 1.
    """
    layers = [entry for entry in architecture.layers if training or entry.kind != "loss"]
    findings = [
        Finding(f"layer {entry.name!r} space", "none", "loops and tensors", "describe the layer")
        for entry in layers
        if entry.space is None
    ]
    if batch < 1:
        findings.append(Finding("batch", str(batch), "at least 1", "ask for more"))
    if findings:
        raise InputError(findings).in_file(f"architecture {architecture.name}")
    place = {entry.name: number for number, entry in enumerate(layers)}
    return MeshGraph(
        architecture.name,
        tuple(place),
        tuple(_batched(entry, batch) for entry in layers),
        tuple(tuple(place[name] for name in entry.inputs) or (None,) for entry in layers),
    )


def _batched(layer: Layer, batch: int) -> MeshOperator:
    assert layer.space is not None
    return layer.space.batched(batch)


def sharding(
    architecture: Architecture,
    cluster: Cluster,
    shape: str,
    *,
    batch: int,
    training: Training | None = None,
    micro_batches: int = 1,
    zero_levels: tuple[int, ...] = (0,),
    limited: bool = True,
    name: str | None = None,
) -> ShardingProblem:
    """Return a problem of strategies on one mesh: least total time, one layer after the other.

    Parameters
    ----------
    architecture, batch
        Architecture, and number of samples.
    micro_batches
        Number of parts, one after the other (:mod:`milp_plan.cost.mesh.micro_batches`).
    cluster, shape
        The cluster, and the arrangement of devices of one class, such as ``"2x4"``
        (:func:`mesh_on`).
    training, zero_levels
        Bytes per parameter (``None`` for inference), and levels of sharing between replicas.
    limited
        Whether the memory of a device limits its usage.
    name
        Name of the problem; derived from the arguments by default.
    """
    check_counts(batch, micro_batches)
    graph = mesh_graph(architecture, batch // micro_batches, training=training is not None)
    grid = mesh_on(cluster, shape)
    setting = Setting(grid, training, zero_levels, micro_batches)
    memory = {entry.name: entry.memory_bytes for entry in cluster.device_classes}
    limit = memory[grid.device.name] if limited else None
    mode = "inference" if training is None else "training"
    title = name or f"{architecture.name}-{mode}-{shape}x{grid.device.name}-b{batch}"
    problem = mesh_problem(graph, setting, limit=limit, name=title)
    details = {
        "architecture": architecture.name,
        "source": architecture.source,
        "batch": str(batch),
    }
    return replace(problem, provenance={**problem.provenance, **details, **sources(cluster)})


def meshed(
    architecture: Architecture,
    cluster: Cluster,
    shapes: Iterable[str],
    *,
    batch: int,
    training: Training | None = None,
    moved_bytes: int = 0,
    zero_levels: tuple[int, ...] = (0,),
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
) -> PlanningProblem:
    """Return a problem of strategies, devices and times of a forward pass or a training step.

    Parameters
    ----------
    architecture, batch
        Architecture, and number of samples; the loss is left out of inference.
    cluster
        Devices of one class, with groups of the sizes of the meshes.
    shapes
        Meshes such as ``"2"`` or ``"2x2"``, each with another number of devices.
    training, moved_bytes, zero_levels
        Bytes per parameter that are stored (``None`` for inference) and that an update moves, and
        levels of sharing between replicas.
    objective, name
        Objective and name of the problem.

    Raises
    ------
    InputError
        Several device classes, a mesh for which there is no group, or two of the same size.
    """
    graph = mesh_graph(architecture, batch, training=training is not None)
    meshes = meshes_on(cluster, tuple(shapes))
    draft = MeshedDraft(
        graph,
        [architecture.layer(title) for title in graph.names],
        [Setting(grid, training, zero_levels) for grid in meshes],
        cluster.device_classes[0].name,
        moved_bytes,
    )
    mode = "inference" if training is None else "training"
    details = {
        "generator": "milp_plan.zoo.meshed",
        "architecture": architecture.name,
        "source": architecture.source,
        "mode": mode,
        "batch": str(batch),
        "meshes": " ".join(grid.text for grid in meshes),
    }
    if training is not None:
        details["zero levels"] = " ".join(map(str, zero_levels))
    title = name or f"{architecture.name}-{mode}-b{batch}-meshed"
    details |= sources(cluster)
    return PlanningProblem(title, draft.made(), plain(cluster), objective, provenance=details)


def meshes_on(cluster: Cluster, shapes: tuple[str, ...]) -> list[Mesh]:
    """Return one device, and the requested meshes.

    Raises
    ------
    InputError
        Several device classes, a mesh for which there is no group, or two of the same size.
    """
    classes = [entry.name for entry in cluster.device_classes]
    if len(classes) > 1:
        remedy = "choose a cluster of equal devices"
        raise InputError([Finding("cluster", " and ".join(classes), "one device class", remedy)])
    meshes = [Mesh(spec_of(cluster, classes[0])), *(mesh_on(cluster, shape) for shape in shapes)]
    findings = [
        Finding(
            "meshes",
            f"{one.text}: {one.devices} devices",
            f"a size of one of the cluster's groups, {sorted({len(g) for g in cluster.groups})}",
            "choose another mesh or a larger cluster",
        )
        for one in meshes
        if not cluster.sites(one.devices)
    ]
    if len({one.devices for one in meshes}) < len(meshes):
        expected = "meshes of different numbers of devices, more than one each"
        findings.append(Finding("meshes", " ".join(shapes), expected, "leave one out"))
    if findings:
        raise InputError(findings)
    return meshes


def mesh_on(cluster: Cluster, shape: str) -> Mesh:
    """Arrange the first devices of a cluster, or of its first group of that size, as a mesh.

    Each axis gets the slowest link between devices that are neighbours along it.

    Parameters
    ----------
    cluster
        Cluster; the devices of a mesh are of one class.
    shape
        Shape such as ``"4"`` or ``"2x4"``: consecutive devices along the last axis.

    Raises
    ------
    InputError
        A shape that does not parse, more devices than there are, or devices that are not joined.
    """
    sizes = extents(shape)
    count = prod(sizes)
    sites = [*cluster.sites(count), cluster.device_names[:count]]
    devices = sites[0]
    if len(devices) < count:
        expected = f"at most {len(devices)} devices"
        raise InputError([Finding("mesh", f"{shape}: {count}", expected, "ask for fewer")])
    classes = list(dict.fromkeys(cluster.device(name).device_class for name in devices))
    if len(classes) > 1:
        remedy = "ask for a smaller mesh, or choose a cluster of equal devices"
        found = f"{shape} of {' and '.join(classes)}"
        raise InputError([Finding("mesh", found, "devices of one class", remedy)])
    spec = spec_of(cluster, classes[0])
    links, stride = list[LinkSpec](), count
    for size in sizes:
        block, stride = stride, stride // size
        links.append(_slowest(cluster, devices, block, stride))
    return mesh(shape, spec, links)


def _slowest(cluster: Cluster, devices: tuple[str, ...], block: int, stride: int) -> LinkSpec:
    """Return the link between neighbours ``stride`` apart, within blocks of ``block`` devices."""
    pairs = [
        (devices[place], devices[place + stride])
        for place in range(len(devices))
        if place % block + stride < block
    ]
    links = []
    for source, target in pairs:
        channel = cluster.channel(source, target)
        if channel is None:
            expected = "a channel between neighbours of the mesh"
            finding = Finding("mesh", f"none from {source} to {target}", expected, "add it")
            raise InputError([finding])
        links.append(channel)
    slowest = min(links, key=lambda one: (one.bandwidth_bytes_per_s, -one.latency_ticks))
    return LinkSpec("channel", slowest.bandwidth_bytes_per_s, slowest.latency_ticks, 1000)
