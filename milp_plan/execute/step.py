"""One training step of a user's model in this process, with its losses, gradients and peak."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from statistics import median
from typing import Any

from milp_plan.capture.failures import errors_as_findings
from milp_plan.capture.inputs import SEED, built_with_seed
from milp_plan.capture.model_file import Builder
from milp_plan.core import Finding, InputError


@dataclass(frozen=True)
class StepResult:
    """Results of a step.

    Parameters
    ----------
    loss
        The model's first output.
    gradients
        Parameter -> gradient, as tensors of 64-bit numbers.
    peak_bytes
        Largest memory in use, without what was there before (weights, inputs).
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
    device: str = "cpu",
) -> StepResult:
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
        Whether blocks draw random numbers (dropout), so that each saves the state of the
        generator, 5 KB.
    device
        Device of the run.

    Raises
    ------
    InputError
        The model does not have a block, or PyTorch cannot run it; the error names module,
        operator and line.
    """
    module, inputs = _prepared(builder, policies or {}, dtype, random, device)
    losses: list[Any] = []

    def step() -> None:
        losses.append(_passes(builder, dtype, module, inputs))

    peak = allocated_peak(step) if device == "cpu" else _accelerator_peak(step, device)
    return StepResult(float(losses[0]), gradients_of(module), peak)


def step_seconds(
    builder: Builder,
    choices: Sequence[Mapping[str, str]],
    *,
    rounds: int,
    random: bool = True,
    device: str = "cpu",
) -> list[float]:
    """Return the median seconds of a step under each choice of policies, in turns, after a warm-up.

    Parameters
    ----------
    builder, random, device
        See :func:`run_step`.
    choices
        Block -> policy, for each of them.
    rounds
        Number of steps of each.

    Raises
    ------
    InputError
        See :func:`run_step`.
    """
    models = [_prepared(builder, choice, None, random, device) for choice in choices]
    taken: list[list[float]] = [[] for _ in choices]
    for turn in range(rounds + 1):
        for (module, inputs), known in zip(models, taken, strict=True):
            module.zero_grad(set_to_none=True)
            _await(device)
            began = time.perf_counter_ns()
            _passes(builder, None, module, inputs)
            _await(device)
            if turn:
                known.append((time.perf_counter_ns() - began) / 1e9)
    return [median(known) for known in taken]


Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Inputs by position and by name."""


def _prepared(
    builder: Builder, policies: Mapping[str, str], dtype: str | None, random: bool, device: str
) -> tuple[Any, Inputs]:
    """Return a model with weights whose blocks follow policies, and its inputs, on a device."""
    import torch

    module, args = built_with_seed(builder, dtype)
    module = module.to(device)
    for block, policy in policies.items():
        _checkpoint(module, block, policy, random)
    there = torch.utils._pytree.tree_map(
        lambda item: item.to(device) if isinstance(item, torch.Tensor) else item, args
    )
    return module, arguments(there)


def _await(device: str) -> None:
    """Wait for an accelerator to finish."""
    import torch

    if device != "cpu":
        torch.accelerator.synchronize()


def _accelerator_peak(step: Callable[[], None], device: str) -> int:
    """Run a step; return the peak of an accelerator's memory above what was allocated before."""
    import torch

    gc.collect()
    allocator = getattr(torch, torch.device(device).type)
    allocator.synchronize()
    before = allocator.memory_allocated()
    allocator.reset_peak_memory_stats()
    step()
    allocator.synchronize()
    peak: int = allocator.max_memory_allocated() - before
    return peak


def run_micro_batches(builder: Builder, count: int, *, dtype: str | None = None) -> StepResult:
    """Run a step of several micro-batches one after the other; losses and gradients are means.

    Raises
    ------
    InputError
        See :func:`run_step`.
    """
    module, _ = built_with_seed(builder, dtype)
    losses = []

    def step() -> None:
        for number in range(count):
            _, args = built_with_seed(builder, dtype, SEED + number)
            losses.append(float(_passes(builder, dtype, module, arguments(args), count)))

    step()
    return StepResult(sum(losses), gradients_of(module), 0)


def _passes(
    builder: Builder,
    dtype: str | None,
    module: Any,
    inputs: Inputs,
    count: int = 1,
) -> Any:
    """Run both passes of one of several micro-batches; return its part of the loss."""
    places, kwargs = inputs
    model = module, places, kwargs
    with errors_as_findings(builder.text, "the forward pass", model, dtype):
        loss = loss_of(module(*places, **kwargs))
        loss = loss if count == 1 else loss / count  # the plan has no division by 1 either
    with errors_as_findings(builder.text, "the backward pass", model, dtype):
        loss.backward()
    return loss.detach()


def loss_of(outputs: Any) -> Any:
    """Return the first output of a model."""
    import torch

    values = list(outputs.values()) if isinstance(outputs, dict) else outputs
    return values if isinstance(values, torch.Tensor) else values[0]


def gradients_of(module: Any) -> dict[str, Any]:
    """Return parameter -> gradient, as tensors of 64-bit numbers."""
    return {
        name: parameter.grad.detach().double()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


def _checkpoint(module: Any, block: str, policy: str, random: bool) -> None:
    """Make a block recompute, in the backward pass, what its policy drops."""
    from torch.utils.checkpoint import (
        CheckpointPolicy,
        checkpoint,
        create_selective_checkpoint_contexts,
    )

    try:
        target = module.get_submodule(block)
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
    target.forward = partial(checkpoint, target.forward, **extra)


def allocated_peak(step: Callable[[], None]) -> int:
    """Run a step; return the largest sum of allocations less releases during it."""
    import torch

    gc.collect()
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    events = [
        (event.start_ticks(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    events.sort(key=lambda event: event[0])
    return max(accumulate(size for _, size in events), default=0)


def arguments(args: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs by position and by name."""
    return ((), args) if isinstance(args, dict) else (tuple(args), {})


def micro_batch(builder: Builder, number: int, dtype: str | None) -> list[Any]:
    """Return inputs of a micro-batch: those that ``build()`` returns under its own seed.

    Raises
    ------
    InputError
        An input is no tensor: it would be the same in all micro-batches.
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
