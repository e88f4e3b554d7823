"""Bytes a device stores for an operator, and how replicas share them (ZeRO).

Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
SC 2020, sections 3 and 5. Mixed-precision Adam keeps 2 bytes of weights, 2 of gradient and 12 of
optimizer state (master weights and two moments) per parameter. Devices that hold the same
parameters share, by level, the optimizer state (1), also the gradient (2), also the weights (3);
level 3 is also known as FSDP. Levels 1 and 2 send what an all-reduce of the gradient sends, level 3
half as much again.
"""

from __future__ import annotations

from dataclasses import dataclass

from milp_plan.core import ceil_div

ZERO_LEVELS = (0, 1, 2, 3)
"""What replicas share: nothing, optimizer state, also gradients, also weights."""


@dataclass(frozen=True)
class Training:
    """Bytes per parameter.

    Parameters
    ----------
    weight, gradient, state
        Of weights, gradient and optimizer state.
    """

    weight: int = 2
    gradient: int = 2
    state: int = 12


ADAM = Training()
"""Mixed-precision Adam: 16 bytes in all."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each device.

    Parameters
    ----------
    weights, gradients, state
        Kept all the time.
    output
        The output, in training until the backward pass.
    saved
        What else the backward pass needs, inputs apart.
    """

    weights: int
    gradients: int
    state: int
    output: int
    saved: int

    @property
    def total(self) -> int:
        """Sum of all."""
        return self.kept + self.passing

    @property
    def kept(self) -> int:
        """What stays from one micro-batch to the next."""
        return self.weights + self.gradients + self.state

    @property
    def passing(self) -> int:
        """What one micro-batch needs while it runs."""
        return self.output + self.saved


def kept_bytes(
    parameters: int, replicas: int, level: int, training: Training | None
) -> tuple[int, int, int]:
    """Weights, gradients and optimizer state of one device, in bytes.

    Parameters
    ----------
    parameters
        Parameters of the device's part, before replicas share.
    replicas
        Devices that hold the same part.
    level
        One of :data:`ZERO_LEVELS`.
    training
        Bytes per parameter; ``None`` for inference, which keeps weights alone.
    """
    kept = training or ADAM
    sizes = [kept.weight, kept.gradient, kept.state] if training else [kept.weight, 0, 0]
    shared = (level >= 3, level >= 2, level >= 1)
    weights, gradients, state = (
        ceil_div(parameters * size, replicas if share else 1)
        for size, share in zip(sizes, shared, strict=True)
    )
    return weights, gradients, state
