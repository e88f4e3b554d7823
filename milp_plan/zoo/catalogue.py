"""Architectures by name, and functions from names to planning problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from milp_plan.core import PLAIN_OBJECTIVES, Finding, InputError, Objective, PlanningProblem
from milp_plan.core.sharding import ShardingProblem
from milp_plan.cost.clusters import ModelledCluster, arranged
from milp_plan.cost.mesh import Training

from . import moe, transformer, two_tower
from .architecture import Architecture
from .blocks import GRANULARITIES
from .build import OPTIMIZERS, inference, training_step
from .convolutional import alexnet, resnet50, unet, vgg16
from .inception import inception_v3
from .meshed import meshed, sharding


@dataclass(frozen=True)
class Entry:
    """An architecture that can be requested by name.

    Parameters
    ----------
    family
        Family of the architecture, for example ``"gpt"``.
    make
        Granularity, and number of blocks (``None`` for its own) -> architecture.
    granularities
        Its granularities, the default first.
    stacked
        Whether the number of blocks can be chosen.
    """

    family: str
    make: Callable[[str, int | None], Architecture]
    granularities: tuple[str, ...] = ("fine",)
    stacked: bool = False


def _only(make: Callable[[], Architecture]) -> Callable[[str, int | None], Architecture]:
    """Return a maker that accepts a granularity where there is only one."""

    def made(_granularity: str, _blocks: int | None) -> Architecture:
        return make()

    return made


def _named(
    family: str, make: Callable[..., Architecture], names: Iterable[str], *, stacked: bool
) -> dict[str, Entry]:
    def entry(name: str) -> Entry:
        def made(granularity: str, blocks: int | None) -> Architecture:
            arguments = {"blocks": blocks} if stacked else {}
            return make(name, granularity=granularity, **arguments)

        return Entry(family, made, GRANULARITIES, stacked)

    return {name: entry(name) for name in names}


ARCHITECTURES: dict[str, Entry] = {
    **_named("gpt", transformer.gpt, transformer.CONFIGS, stacked=True),
    **_named("moe", moe.moe, moe.CONFIGS, stacked=True),
    **_named("two-tower", two_tower.two_tower, two_tower.CONFIGS, stacked=False),
    "resnet50": Entry("resnet", _only(resnet50)),
    "inception_v3": Entry("inception", _only(inception_v3)),
    "unet": Entry("unet", _only(unet)),
    "alexnet": Entry("alexnet", _only(alexnet)),
    "vgg16": Entry("vgg", _only(vgg16)),
}
"""All architectures, by name."""

MODES = ("training", "inference")
"""Modes of :func:`generate`."""


def architecture(name: str, granularity: str = "fine", blocks: int | None = None) -> Architecture:
    """Return an architecture by name, with ``blocks`` blocks in place of its own number.

    Raises
    ------
    InputError
        Unknown name, or a granularity it does not have; the finding lists the known ones. A number
        of blocks for an architecture that is no stack of equal ones.
    """
    if name not in ARCHITECTURES:
        raise _unknown("architecture", name, sorted(ARCHITECTURES))
    entry = ARCHITECTURES[name]
    if granularity not in entry.granularities:
        raise _unknown(f"granularity of {name}", granularity, entry.granularities)
    if blocks is not None and not entry.stacked:
        raise InputError([Finding(f"blocks of {name}", str(blocks), "none", "leave them out")])
    return entry.make(granularity, blocks)


def _unknown(where: str, value: str, known: Iterable[str]) -> InputError:
    return InputError(
        [Finding(where, repr(value), f"one of {', '.join(known)}", "correct the name")]
    )


def generate(
    architecture_name: str,
    cluster: str | ModelledCluster,
    *,
    mode: str = "training",
    batch: int = 8,
    micro_batches: int = 1,
    granularity: str = "fine",
    blocks: int | None = None,
    memory_scale: str | int | Fraction = 1,
    options: Iterable[str] = (),
    meshes: Iterable[str] = (),
    zero_levels: Iterable[int] = (),
    optimizer: str = "adam",
    communication: str | None = None,
    link: str | None = None,
    objective: str = "makespan",
    name: str | None = None,
) -> PlanningProblem:
    """Build a planning problem from names.

    Parameters
    ----------
    architecture_name
        A key of :data:`ARCHITECTURES`.
    cluster
        Text such as ``"4xH100"`` or ``"2xH100+2xA100"`` (``milp_plan.cost.cluster``), or one that
        was read from a file, which defines its links.
    mode
        ``"training"`` or ``"inference"``.
    batch, micro_batches
        Samples of the step, and the parts they are cut into.
    granularity
        ``"fine"`` (one layer per kernel) or, for transformers, ``"block"``.
    blocks
        Blocks of a GPT or a mixture of experts, instead of its own number.
    memory_scale
        Factor on every device's memory, exact, such as ``"1/8"``.
    options
        Ways to split layers, such as ``"column2"`` or ``"all2"``.
    meshes
        Device meshes whose strategies to offer instead, such as ``"2"`` or ``"2x2"``; for one
        micro-batch (:func:`milp_plan.zoo.meshed.meshed`).
    zero_levels
        With meshes: levels of ZeRO to offer in addition to 0.
    optimizer
        ``"adam"`` or ``"sgd"``; used for training only.
    communication, link
        Resources that transfers occupy, and the link inside nodes if not the devices' own.
    objective
        ``"makespan"``, ``"bottleneck"`` or ``"peak_memory"``.
    name
        Name of the problem; derived from the arguments by default.

    Raises
    ------
    InputError
        An argument is unknown or does not fit; the finding lists the known values.
    """
    for where, word, known in (
        ("mode", mode, MODES),
        ("objective", objective, PLAIN_OBJECTIVES),
        ("communication", communication or "channel", ("channel", "endpoint", "delay")),
        ("optimizer", optimizer, sorted(OPTIMIZERS)),
    ):
        if word not in known:
            raise _unknown(where, word, known)
    scale = _scale(memory_scale)
    network = architecture(architecture_name, granularity, blocks)
    machines = arranged(cluster, communication, link)
    title = name or f"{network.name}-{mode}-{machines.name}-b{batch}"
    if shapes := tuple(meshes):
        _check_meshed(micro_batches, tuple(options))
        problem = meshed(
            network,
            machines,
            shapes,
            batch=batch,
            training=_training(optimizer) if mode == "training" else None,
            moved_bytes=OPTIMIZERS[optimizer].moved_bytes,
            zero_levels=(0, *zero_levels),
            objective=Objective(objective),
            name=title,
        )
    else:
        if levels := tuple(zero_levels):
            finding = Finding(
                "zero_levels", str(levels), "none without meshes", "give meshes as well"
            )
            raise InputError([finding])
        build = partial(training_step, optimizer=optimizer) if mode == "training" else inference
        problem = build(
            network,
            machines,
            batch=batch,
            micro_batches=micro_batches,
            options=options,
            objective=Objective(objective),
            name=title,
        )
    provenance = {**problem.provenance, "granularity": granularity, "cluster": machines.name}
    if scale != 1:
        problem = problem.with_memory_scale(scale.numerator, scale.denominator)
        provenance["memory_scale"] = str(scale)
    return replace(problem, provenance=provenance)


def shard(
    architecture_name: str,
    cluster: str | ModelledCluster,
    shape: str,
    *,
    mode: str = "training",
    batch: int = 8,
    micro_batches: int = 1,
    granularity: str = "fine",
    blocks: int | None = None,
    memory_scale: str | int | Fraction = 1,
    zero_levels: Iterable[int] = (),
    optimizer: str = "adam",
    link: str | None = None,
    name: str | None = None,
) -> ShardingProblem:
    """Build a sharding problem from names: a strategy per layer, on one mesh.

    Parameters
    ----------
    architecture_name, cluster, mode, batch, micro_batches
        As for :func:`generate`; micro-batches run one after the other, each with strategies of its
        own where the weights allow it (:mod:`milp_plan.cost.mesh.micro_batches`).
    granularity, blocks, memory_scale, optimizer, link, name
        See :func:`generate`; a device's memory limits its usage.
    shape
        Mesh such as ``"8"`` or ``"2x4"``, of the cluster's first devices.
    zero_levels
        Levels of ZeRO to offer in addition to 0.

    Raises
    ------
    InputError
        An argument is unknown or does not fit; the finding lists the known values.
    """
    if mode not in MODES:
        raise _unknown("mode", mode, MODES)
    if optimizer not in OPTIMIZERS:
        raise _unknown("optimizer", optimizer, sorted(OPTIMIZERS))
    training = _training(optimizer) if mode == "training" else None
    scale = _scale(memory_scale)
    machines = arranged(cluster, None, link)
    problem = sharding(
        architecture(architecture_name, granularity, blocks),
        machines,
        shape,
        batch=batch,
        micro_batches=micro_batches,
        training=training,
        zero_levels=(0, *zero_levels),
        name=name,
    )
    assert problem.limit is not None
    limit = problem.limit * scale.numerator // scale.denominator
    return replace(problem, limit=limit)


def _training(optimizer: str) -> Training:
    return Training(state=OPTIMIZERS[optimizer].state_bytes)


def _check_meshed(micro_batches: int, options: tuple[str, ...]) -> None:
    for where, found, expected in (
        ("micro_batches", str(micro_batches), "1"),
        ("options", " ".join(options), ""),
    ):
        if found != expected:
            needed = f"{expected or 'none'} with meshes"
            raise InputError([Finding(where, found, needed, "correct it, or leave out meshes")])


def _scale(text: str | int | Fraction) -> Fraction:
    try:
        scale = Fraction(text)
    except (ValueError, ZeroDivisionError):
        scale = Fraction(0)
    if scale <= 0:
        finding = Finding("memory_scale", repr(text), "a positive number", "for example 1/8 or 0.5")
        raise InputError([finding])
    return scale
