"""Exchange rate between computing and sending, and PaSE's all-reduce."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORD_BYTES = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """What a device computes and its link carries in a second.

    Parameters
    ----------
    flops
        Multiply-adds per second of one device. PaSE's default: 10e12.
    bandwidth
        Bytes per second of one link. PaSE's default: 16e9.
    """

    flops: float = 10e12
    bandwidth: float = 16e9

    @property
    def word(self) -> float:
        """Multiply-adds in the time of sending one word."""
        return WORD_BYTES * self.flops / self.bandwidth

    def all_reduce(self, words: Floats, devices: Floats) -> Floats:
        """Ring all-reduce of a buffer of this many words on each device, without latency."""
        return self.word * 2.0 * (devices - 1.0) / devices * words
