"""Models with weights, and the tensors of their captured graphs' inputs."""

from __future__ import annotations

from typing import Any

from milp_plan.core import Finding, InputError

from .failures import not_run
from .model_file import INNER, Builder

SEED = 20_261
"""Seed of weights and inputs, which are the same in every run."""


def built_with_seed(builder: Builder, dtype: str | None, seed: int = SEED) -> Any:
    """Return what ``build()`` returns, a module and its inputs, under a fixed seed.

    Raises
    ------
    InputError
        The function fails when it creates weights.
    """
    import torch

    before = torch.get_default_dtype()
    torch.manual_seed(seed)
    if dtype is not None:
        torch.set_default_dtype(getattr(torch, dtype))
    try:
        return builder.build()
    except Exception as error:
        raise not_run(builder.text, "build", error, dtype=dtype) from error
    finally:
        torch.set_default_dtype(before)


def graph_inputs(graph: Any, built: tuple[Any, Any]) -> dict[str, tuple[str | None, Any]]:
    """Return input node -> name in the plan (``None`` for constants) and tensor."""
    import torch

    module, args = built
    leaves = torch.utils._pytree.tree_leaves(args)
    tensors: dict[str, tuple[str | None, Any]] = {}
    for node in graph.nodes:
        if node.op != "placeholder":
            continue
        description = node.meta["desc"]
        kind = type(description).__name__
        if kind == "TangentAOTInput":
            value = node.meta["val"]
            tensors[node.name] = (None, torch.ones(value.shape, dtype=value.dtype))
        elif hasattr(description, "target"):
            path = path_of(description.target)
            tensors[node.name] = (path, _tensor(module, path))
        else:
            tensors[node.name] = (description.expr(), leaves[description.idx])
    return tensors


def _tensor(module: Any, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(owner), name).detach()
    except AttributeError:
        expected = "a parameter or a buffer of the model"
        remedy = "register the tensor as a buffer of its module"
        raise InputError([Finding(f"tensor {path!r}", "a constant", expected, remedy)]) from None


def path_of(target: str) -> str:
    """Return the path of a tensor in the user's module, from its path in the captured one."""
    return target.removeprefix(f"{INNER}.")
