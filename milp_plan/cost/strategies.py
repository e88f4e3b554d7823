"""Ways to run one layer over several devices, and their costs.

A way is a split and a number of devices, written ``column2``. It determines the layouts of
activations and weights, and the collectives inside the operator:

======  ==========  ==========  ========  ============================================
split   reads       writes      weights   collectives inside the operators
======  ==========  ==========  ========  ============================================
copy    full        full        full      none; every device does all the work
batch   batch       batch       full      all-reduce of the weight gradient
column  full        column      column    all-reduce of the input gradient
row     column      full        row       all-reduce of the output
head    column      column      head      none
tensor  full        full        tensor    all-reduces of output and of input gradient
expert  batch       batch       expert    all-to-alls of input and output
======  ==========  ==========  ========  ============================================

``column``, ``row`` and ``head`` are the splits of Megatron-LM (Shoeybi et al. 2019), ``tensor`` is
its column-row pair inside one fused layer, ``expert`` the expert parallelism of GShard (Lepikhin
et al. 2020). A *pointwise* layer split by ``column`` also reads ``column`` and needs no collective.
Gradients of activations have the layouts of the activations. Neighbours whose layouts agree need
no change of layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from milp_plan.core import FULL, Cluster, Finding, InputError, ceil_div

from .clusters import link_of, spec_of
from .collectives import all_gather_ns, all_reduce_ns, all_to_all_ns
from .devices import DeviceSpec, LinkSpec
from .roofline import roofline_ns


@dataclass(frozen=True, slots=True)
class LayerStrategy:
    """A way to run a layer.

    Parameters
    ----------
    name
        ``"single"``, or split and gang.
    gang
        Number of devices.
    reads, writes, weights
        Layouts of inputs, output and weights.
    divides
        Whether the devices divide the work.
    reduces_output, reduces_input_gradient, reduces_weight_gradient, exchanges
        Collectives that run inside the operators.
    """

    name: str
    gang: int = 1
    reads: str = FULL
    writes: str = FULL
    weights: str = FULL
    divides: bool = True
    reduces_output: bool = False
    reduces_input_gradient: bool = False
    reduces_weight_gradient: bool = False
    exchanges: bool = False


SINGLE = LayerStrategy("single")
"""One device runs the whole layer."""

_TEMPLATES = {
    "copy": LayerStrategy("copy", divides=False),
    "batch": LayerStrategy("batch", reads="batch", writes="batch", reduces_weight_gradient=True),
    "column": LayerStrategy(
        "column", writes="column", weights="column", reduces_input_gradient=True
    ),
    "row": LayerStrategy("row", reads="column", weights="row", reduces_output=True),
    "head": LayerStrategy("head", reads="column", writes="column", weights="head"),
    "tensor": LayerStrategy(
        "tensor", weights="tensor", reduces_output=True, reduces_input_gradient=True
    ),
    "expert": LayerStrategy(
        "expert", reads="batch", writes="batch", weights="expert", exchanges=True
    ),
}
_POINTWISE_COLUMN = LayerStrategy("column", reads="column", writes="column", weights="column")

WAY_SPLITS = tuple(_TEMPLATES)
"""All splits."""

_LABEL = re.compile(r"([a-z]+)([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Work:
    """Total work of one operator, before it is divided.

    Parameters
    ----------
    flops
        Floating-point operations.
    moved_bytes
        Bytes of activations read and written.
    weight_bytes
        Bytes of weights read or written; a device handles its share.
    reduced_bytes, exchanged_bytes
        Sizes of the tensors of an all-reduce, or of all-to-alls, inside the operator.
    """

    flops: int
    moved_bytes: int
    weight_bytes: int = 0
    reduced_bytes: int = 0
    exchanged_bytes: int = 0


def parse_labels(labels: Iterable[str], cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Read way labels such as ``"column2"``; ``"all2"`` stands for every split over 2 devices.

    Returns
    -------
    tuple of (split, gang)
        Each label once, in the given order; gangs for which the cluster has no group are an error.

    Raises
    ------
    InputError
        Unknown splits, or gangs without a group.
    """
    pairs: dict[tuple[str, int], None] = {}
    findings = []
    for label in labels:
        match = _LABEL.fullmatch(label)
        if match is None or match[1] not in ("all", *WAY_SPLITS) or int(match[2]) < 2:
            expected = f"one of {', '.join(('all', *WAY_SPLITS))} and a number of at least 2"
            findings.append(Finding("options", repr(label), expected, "for example column2"))
            continue
        gang = int(match[2])
        if not cluster.sites(gang):
            sizes = sorted({len(group) for group in cluster.groups})
            findings.append(
                Finding(
                    "options",
                    repr(label),
                    f"a size of one of the cluster's groups, {sizes}",
                    "choose another size or a larger cluster",
                )
            )
        for split in WAY_SPLITS if match[1] == "all" else (match[1],):
            pairs[(split, gang)] = None
    if findings:
        raise InputError(findings)
    return tuple(pairs)


def ways(
    splits: Iterable[str], requested: Iterable[tuple[str, int]], *, batch: int, pointwise: bool
) -> tuple[LayerStrategy, ...]:
    """Return ways to run a layer: on one device, and the requested ones that its splits allow.

    Parameters
    ----------
    splits
        Splits the layer allows.
    requested
        Requested splits and gangs, from :func:`parse_labels`.
    batch
        Samples of the (micro-)batch; splits of the batch must divide it.
    pointwise
        Whether the layer works on each feature separately.
    """
    allowed = set(splits)
    rows = [SINGLE]
    for split, gang in requested:
        by_batch = _TEMPLATES[split].reads == "batch"
        if split not in allowed or (by_batch and batch % gang):
            continue
        template = _POINTWISE_COLUMN if pointwise and split == "column" else _TEMPLATES[split]
        rows.append(
            replace(
                template,
                name=f"{split}{gang}",
                gang=gang,
                reads=_layout(template.reads, gang),
                writes=_layout(template.writes, gang),
                weights=_layout(template.weights, gang),
            )
        )
    return tuple(rows)


def _layout(kind: str, gang: int) -> str:
    return kind if kind == FULL else f"{kind}{gang}"


def layout_gang(layout: str) -> int:
    """Return the number of shards of a layout; 1 for ``full``."""
    match = _LABEL.fullmatch(layout)
    return 1 if match is None else int(match[2])


def layout_bytes(num_bytes: int, layout: str) -> int:
    """Return the bytes that each device holds of a tensor of ``num_bytes``."""
    return ceil_div(num_bytes, layout_gang(layout))


def durations_ticks(work: Work, way: LayerStrategy, cluster: Cluster) -> dict[str, int]:
    """Return device class -> ticks of an operator run this way, with collectives on its group."""
    durations = {}
    share = way.gang if way.divides else 1
    weights = layout_bytes(work.weight_bytes, way.weights)
    for entry in cluster.device_classes:
        spec = spec_of(cluster, entry.name)
        ticks = roofline_ns(
            spec, ceil_div(work.flops, share), ceil_div(work.moved_bytes, share) + weights
        )
        if way.gang > 1:
            link = group_link(cluster, spec)
            if work.reduced_bytes:
                ticks += all_reduce_ns(link, way.gang, work.reduced_bytes)
            if work.exchanged_bytes:
                exchanged = ceil_div(work.exchanged_bytes, way.gang)
                ticks += all_to_all_ns(link, way.gang, exchanged)
        durations[entry.name] = ticks
    return durations


def group_link(cluster: Cluster, spec: DeviceSpec) -> LinkSpec:
    """Return the link that joins the devices of a group of that class.

    The channels of the cluster decide, not the class's own link, which ``cluster(link=...)`` may
    have replaced. Without any group, it is the class's own.
    """
    for group in cluster.groups:
        if cluster.device(group[0]).device_class == spec.name:
            channel = cluster.channel(group[0], group[1])
            if channel is not None:
                return LinkSpec("group", channel.bandwidth_bytes_per_s, channel.latency_ticks, 1000)
    return link_of(cluster, spec)


def reshard_table(
    num_bytes: int, layouts: Iterable[str], cluster: Cluster
) -> dict[tuple[str, str], int]:
    """Return the ticks to change a tensor of ``num_bytes`` from any of the layouts to any other.

    To ``full`` or to fewer shards of the same kind it is an all-gather among the devices whose
    shards are joined; from ``full``, or to more shards of the same kind, each device keeps a part
    of its data, which costs nothing; between kinds it is an all-to-all. The slowest class of
    the cluster counts, since the table knows no devices. Transfers to other devices are charged
    in addition by the transfer law.
    """
    names = tuple(dict.fromkeys(layouts))
    if len(names) < 2:
        return {}
    links = [group_link(cluster, spec_of(cluster, entry.name)) for entry in cluster.device_classes]
    table = {}
    for before in names:
        for after in names:
            if before != after:
                table[before, after] = max(
                    _change_ns(link, num_bytes, before, after) for link in links
                )
    return table


def _change_ns(link: LinkSpec, num_bytes: int, before: str, after: str) -> int:
    old, new = layout_gang(before), layout_gang(after)
    if before == FULL:
        return 0
    if after == FULL:
        return all_gather_ns(link, old, num_bytes)
    if before.rstrip("0123456789") == after.rstrip("0123456789"):
        joined = ceil_div(old, new)
        return all_gather_ns(link, joined, layout_bytes(num_bytes, after)) if joined > 1 else 0
    gang = max(old, new)
    return all_to_all_ns(link, gang, ceil_div(num_bytes, min(old, new)))
