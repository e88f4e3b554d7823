"""Models with weights, and micro-batches: what ``build()`` returns under a seed."""

from __future__ import annotations

from typing import Any

from milp_plan.capture.inputs import SEED, built_with_seed
from milp_plan.capture.model_file import Builder
from milp_plan.core import Finding, InputError


def arguments(args: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs by place and by name."""
    return ((), args) if isinstance(args, dict) else (tuple(args), {})


def micro_batch(builder: Builder, number: int, dtype: str | None) -> list[Any]:
    """Inputs of a micro-batch: those that ``build()`` returns under a seed of its own.

    Raises
    ------
    InputError
        An input that is no tensor: it would be the same in all micro-batches.
    """
    import torch

    _, args = built_with_seed(builder, dtype, SEED + number)
    leaves: list[Any] = torch.utils._pytree.tree_leaves(args)
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            found, expected = type(leaf).__name__, "tensors as inputs"
            remedy = "make it a constant of the module"
            raise InputError([Finding(f"input {place}", found, expected, remedy, builder.text)])
    return leaves
