"""Bytes that optimizers store and move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    """Bytes that an optimizer stores for each parameter.

    Parameters
    ----------
    moments
        Numbers of 4 bytes stored in addition to the parameter.
    """

    moments: int

    def state_bytes(self, element: int) -> int:
        """Return bytes per parameter between steps; short types have a master copy of 4 bytes."""
        return 4 * (self.moments + (element < 4))

    def moved_bytes(self, element: int) -> int:
        """Return bytes per parameter read and written: gradient, state twice, parameter."""
        state = 2 * self.state_bytes(element)
        return element + state + (element if element < 4 else 2 * element)


OPTIMIZERS = {"adamw": Optimizer(2), "momentum": Optimizer(1), "sgd": Optimizer(0)}
"""Name -> optimizer. AdamW of float32: 8 bytes of state, 28 moved per parameter."""
