"""One training step of a user's model in this process, with its losses, gradients and peak."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from milp_plan.capture import Builder
from milp_plan.capture.failures import told
from milp_plan.capture.inputs import SEED, built_with_seed
from milp_plan.core import Finding, InputError

from .batches import arguments


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
        A block that the model does not have, or a model that PyTorch does not run; names module,
        operator and line.
    """
    module, args = built_with_seed(builder, dtype)
    places, kwargs = arguments(args)
    for block, policy in (policies or {}).items():
        _checkpoint(module, block, policy, random)
    losses: list[Any] = []

    def step() -> None:
        losses.append(_passes(builder, dtype, module, (places, kwargs)))

    peak = allocated_peak(step)
    return Step(float(losses[0]), gradients_of(module), peak)


def run_micro_batches(builder: Builder, count: int, *, dtype: str | None = None) -> Step:
    """Run a step of several micro-batches one after the other; losses and gradients are means.

    Raises
    ------
    InputError
        As :func:`run_step`.
    """
    module, _ = built_with_seed(builder, dtype)
    losses = []

    def step() -> None:
        for number in range(count):
            _, args = built_with_seed(builder, dtype, SEED + number)
            losses.append(float(_passes(builder, dtype, module, arguments(args), count)))

    step()
    return Step(sum(losses), gradients_of(module), 0)


def _passes(
    builder: Builder,
    dtype: str | None,
    module: Any,
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    count: int = 1,
) -> Any:
    """Run both passes of one of several micro-batches; return its part of the loss."""
    places, kwargs = inputs
    model = module, places, kwargs
    with told(builder.text, "the forward pass", model, dtype):
        loss = loss_of(module(*places, **kwargs))
        loss = loss if count == 1 else loss / count  # what is measured has no more than the plan
    with told(builder.text, "the backward pass", model, dtype):
        loss.backward()
    return loss.detach()


def loss_of(found: Any) -> Any:
    """The first of what a model returns."""
    import torch

    values = list(found.values()) if isinstance(found, dict) else found
    return values if isinstance(values, torch.Tensor) else values[0]


def gradients_of(module: Any) -> dict[str, Any]:
    """Parameter -> gradient, as tensors of 64-bit numbers."""
    return {
        name: parameter.grad.detach().double()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


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


def allocated_peak(step: Callable[[], None]) -> int:
    """Run something; return the largest sum of what the allocator gave and took meanwhile."""
    import torch

    gc.collect()
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    events = [
        (event.start_ns(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    events.sort(key=lambda event: event[0])
    return max(accumulate(size for _, size in events), default=0)
