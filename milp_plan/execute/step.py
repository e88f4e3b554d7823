"""One training step of a user's model in this process, with its losses, gradients and peak."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from milp_plan.capture import Builder
from milp_plan.core import Finding, InputError

SEED = 20_261
"""Of weights and inputs, which are the same in every run."""


@dataclass(frozen=True)
class Step:
    """What a step left behind.

    Parameters
    ----------
    loss
        The model's first output.
    gradients
        Parameter -> gradient, as tensors of 64-bit numbers.
    peak_bytes
        Most that lay in memory at once, apart from what was there before (weights, inputs).
    """

    loss: float
    gradients: Mapping[str, Any]
    peak_bytes: int


def run_step(
    builder: Builder,
    policies: Mapping[str, str] | None = None,
    *,
    dtype: str | None = None,
    random: bool = True,
) -> Step:
    """Build the model with weights and run one step of it, eagerly.

    Parameters
    ----------
    builder
        The user's function.
    policies
        Block (path of a module) -> ``keep``, ``attention`` or ``full``.
    dtype
        Type of numbers to build it in.
    random
        Whether blocks draw random numbers (dropout), so that each keeps the state of the
        generator, 5 KB.

    Raises
    ------
    InputError
        A block that the model does not have.
    """
    import torch

    before = torch.get_default_dtype()
    torch.manual_seed(SEED)
    if dtype is not None:
        torch.set_default_dtype(getattr(torch, dtype))
    try:
        module, args = builder.build()
        kwargs = args if isinstance(args, dict) else {}
        places = () if isinstance(args, dict) else tuple(args)
        for block, policy in (policies or {}).items():
            _checkpoint(module, block, policy, random)
        gc.collect()
        with torch.profiler.profile(profile_memory=True) as profile:
            found = module(*places, **kwargs)
            values = list(found.values()) if isinstance(found, dict) else found
            loss = values if isinstance(values, torch.Tensor) else values[0]
            del found, values
            loss.backward()
        gradients = {
            name: parameter.grad.detach().double()
            for name, parameter in module.named_parameters()
            if parameter.grad is not None
        }
        return Step(float(loss.detach()), gradients, _peak(profile))
    finally:
        torch.set_default_dtype(before)


def _checkpoint(module: Any, block: str, policy: str, random: bool) -> None:
    """Let a block compute again, in the backward pass, what its policy forgets."""
    from torch.utils.checkpoint import (
        CheckpointPolicy,
        checkpoint,
        create_selective_checkpoint_contexts,
    )

    try:
        found = module.get_submodule(block)
    except AttributeError:
        expected, remedy = "a module of the model", "capture the model again"
        raise InputError(
            [Finding(f"block {block!r}", "no such module", expected, remedy)]
        ) from None
    if policy == "keep":
        return

    def keeps(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> Any:
        attention = "attention" in str(operator)
        return CheckpointPolicy.MUST_SAVE if attention else CheckpointPolicy.PREFER_RECOMPUTE

    extra: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": random}
    if policy == "attention":
        extra["context_fn"] = partial(create_selective_checkpoint_contexts, keeps)
    found.forward = partial(checkpoint, found.forward, **extra)


def _peak(profile: Any) -> int:
    """Largest sum of what the allocator gave and took, from its events."""
    events = [
        (event.start_ns(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    events.sort(key=lambda event: event[0])
    return max(accumulate(size for _, size in events), default=0)
