"""Bytes that a device stores for an operator, and how replicas share them (ZeRO).

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
"""State that replicas share: none, optimizer state, also gradients, also weights."""


@dataclass(frozen=True)
class Training:
    """Bytes per parameter.

    Parameters
    ----------
    weight, gradient, state
        Bytes of weights, gradient and optimizer state.
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
        Bytes that are resident all the time.
    output
        Bytes of the output, in training until the backward pass.
    saved
        Other bytes for the backward pass, without inputs.
    """

    weights: int
    gradients: int
    state: int
    output: int
    saved: int

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.resident + self.transient

    @property
    def resident(self) -> int:
        """Bytes that stay from one micro-batch to the next."""
        return self.weights + self.gradients + self.state

    @property
    def transient(self) -> int:
        """Bytes of one micro-batch while it runs."""
        return self.output + self.saved


def resident_bytes(
    parameters: int, replicas: int, level: int, training: Training | None
) -> tuple[int, int, int]:
    """Return weights, gradients and optimizer state of one device, in bytes.

    Parameters
    ----------
    parameters
        Parameters of the device's part, before replicas share.
    replicas
        Devices that hold the same part.
    level
        One of :data:`ZERO_LEVELS`.
    training
        Bytes per parameter; ``None`` for inference, which stores weights alone.
    """
    stored = training or ADAM
    sizes = [stored.weight, stored.gradient, stored.state] if training else [stored.weight, 0, 0]
    shared = (level >= 3, level >= 2, level >= 1)
    weights, gradients, state = (
        ceil_div(parameters * size, replicas if share else 1)
        for size, share in zip(sizes, shared, strict=True)
    )
    return weights, gradients, state
