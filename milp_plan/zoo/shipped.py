"""The recipes of the shipped instances; ``benchmarks/ship_instances.py`` writes them as files.

Memory limits of some are scaled down, so that weights or activations must be spread over the
devices although the model is small; ``binds`` marks those, and the tests prove it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from milp_plan.core import PlanningProblem

from .catalogue import generate


@dataclass(frozen=True)
class Recipe:
    """Arguments of :func:`milp_plan.zoo.generate` under a name.

    Parameters
    ----------
    name
        Name of the instance, and stem of its file.
    architecture, cluster, mode, batch, micro_batches, granularity, memory_scale, options
        See :func:`milp_plan.zoo.generate`.
    meshes, communication, link
        See :func:`milp_plan.zoo.generate`.
    binds
        Whether one device cannot run all of it, one task at a time, within its memory.
    """

    name: str
    architecture: str
    cluster: str
    mode: str
    batch: int
    micro_batches: int = 1
    granularity: str = "fine"
    memory_scale: str = "1"
    options: tuple[str, ...] = ()
    meshes: tuple[str, ...] = ()
    communication: str = "channel"
    link: str | None = None
    binds: bool = False

    def build(self) -> PlanningProblem:
        """Return the problem."""
        arguments = asdict(self)
        del arguments["binds"]
        return generate(arguments.pop("architecture"), **arguments)


SHIPPED: tuple[Recipe, ...] = (
    # up to 20 operators
    Recipe(
        "two-tower-tiny-inference-2xH100",
        "two-tower-tiny",
        "2xH100",
        "inference",
        256,
        granularity="block",
    ),
    Recipe(
        "two-tower-tiny-inference-1xH100+1xA100",
        "two-tower-tiny",
        "1xH100+1xA100",
        "inference",
        512,
        granularity="block",
        communication="endpoint",
    ),
    Recipe(
        "gpt-tiny-inference-2xV100",
        "gpt-tiny",
        "2xV100",
        "inference",
        16,
        memory_scale="1/430",
        binds=True,
    ),
    Recipe(
        "gpt-tiny-tensor-2xA100",
        "gpt-tiny",
        "2xA100",
        "inference",
        64,
        options=("all2",),
        communication="delay",
    ),
    Recipe(
        "gpt-tiny-training-2xA100",
        "gpt-tiny",
        "2xA100",
        "training",
        16,
        granularity="block",
        memory_scale="1/500",
        binds=True,
    ),
    Recipe("moe-tiny-inference-4xA100", "moe-tiny", "4xA100", "inference", 16),
    Recipe(
        "gpt-mini-inference-4xV100",
        "gpt-mini",
        "4xV100",
        "inference",
        16,
        micro_batches=2,
        granularity="block",
        communication="endpoint",
        memory_scale="1/110",
        binds=True,
    ),
    # tens of operators
    Recipe("unet-inference-2xH100", "unet", "2xH100", "inference", 4, options=("batch2",)),
    Recipe(
        "resnet50-inference-2xA100",
        "resnet50",
        "2xA100",
        "inference",
        32,
        communication="delay",
        link="PCIe4",
    ),
    # hundreds
    Recipe(
        "unet-training-4xA100", "unet", "4xA100", "training", 8, memory_scale="1/50", binds=True
    ),
    Recipe("inception-v3-inference-4xA100", "inception_v3", "4xA100", "inference", 32),
    Recipe(
        "clip-vit-b32-inference-2xH100+2xA100", "clip-vit-b32", "2xH100+2xA100", "inference", 64
    ),
    Recipe("resnet50-training-2xH100+2xA100", "resnet50", "2xH100+2xA100", "training", 64),
    Recipe(
        "moe-mini-training-8xA100",
        "moe-mini",
        "8xA100",
        "training",
        8,
        memory_scale="1/40",
        communication="endpoint",
        binds=True,
    ),
    Recipe(
        "transformer-4xA100",
        "gpt2-small",
        "4xA100",
        "training",
        16,
        micro_batches=4,
        granularity="block",
    ),
    Recipe(
        "gpt2-small-tensor-4xH100", "gpt2-small", "4xH100", "training", 16, options=("all2", "all4")
    ),
    Recipe(
        "gpt2-xl-training-4xA100-40GB",
        "gpt2-xl",
        "4xA100-40GB",
        "training",
        4,
        granularity="block",
        memory_scale="1/4",
        binds=True,
    ),
    Recipe("inception-v3-training-4xH100", "inception_v3", "4xH100", "training", 64),
    Recipe(
        "mixtral-8x7b-inference-2xH100",
        "mixtral-8x7b",
        "2xH100",
        "inference",
        1,
        granularity="block",
        binds=True,
    ),
    Recipe(
        "clip-vit-b32-training-8xH100",
        "clip-vit-b32",
        "8xH100",
        "training",
        256,
        micro_batches=2,
        granularity="block",
        communication="delay",
    ),
    # thousands
    Recipe(
        "gpt2-medium-training-8xH100",
        "gpt2-medium",
        "8xH100",
        "training",
        32,
        micro_batches=8,
        granularity="block",
    ),
    Recipe(
        "gpt2-xl-training-16xA100",
        "gpt2-xl",
        "16xA100",
        "training",
        8,
        memory_scale="1/20",
        communication="endpoint",
        binds=True,
    ),
    Recipe(
        "inception-v3-training-8xH100+8xA100",
        "inception_v3",
        "8xH100+8xA100",
        "training",
        320,
        micro_batches=5,
        communication="delay",
    ),
)
"""All shipped instances, by rising number of operators within each group."""

MESHED: tuple[Recipe, ...] = (
    Recipe("moe-tiny-meshed-2xH100", "moe-tiny", "2xH100", "inference", 1, meshes=("2",)),
)
"""Shipped instances with strategies of device meshes: sharding, place and time in one problem."""
