"""Placement families: which device runs each stage, for each way micro-batches may take.

A *route* lists the device of every stage, in the order of the forward pass. Most families have
one route; in a bidirectional pipeline half of the micro-batches take the mirrored one.
"""

from __future__ import annotations

from collections.abc import Callable

Route = tuple[int, ...]


def line(devices: int) -> tuple[Route, ...]:
    """Return one stage per device, in order (GPipe, 1F1B, zero bubble)."""
    return (tuple(range(devices)),)


def interleaved(devices: int, chunks: int) -> tuple[Route, ...]:
    """Return stage s on device s mod ``devices``: ``chunks`` rounds (Megatron-LM)."""
    return (tuple(stage % devices for stage in range(devices * chunks)),)


def wave(devices: int, chunks: int = 2) -> tuple[Route, ...]:
    """Return ``chunks`` passes, down and up: V (ZB-V, DualPipeV) with two, Hanayo's with more."""
    down = list(range(devices))
    return (tuple(d for turn in range(chunks) for d in (down[::-1] if turn % 2 else down)),)


def bidirectional(devices: int) -> tuple[Route, ...]:
    """Return both directions: device r runs stage r of one and the mirrored stage of the other.

    Each device keeps the weights of two stages (Chimera, DualPipe).
    """
    return (tuple(range(devices)), tuple(reversed(range(devices))))


FAMILIES: dict[str, Callable[..., tuple[Route, ...]]] = {
    "line": line,
    "interleaved": interleaved,
    "v": wave,
    "wave": wave,
    "dualpipe": bidirectional,
}


def place(family: str, devices: int, chunks: int | None = None) -> tuple[Route, ...]:
    """Return the routes of a family.

    Parameters
    ----------
    family
        One of :data:`FAMILIES`.
    devices
        At least 1.
    chunks
        Stages per device: always 1 for ``line`` and ``dualpipe`` and 2 for ``v``; by default 2
        for ``interleaved`` and 4 for ``wave``.

    Raises
    ------
    ValueError
        The family does not exist, or does not have that many chunks.
    """
    if family not in FAMILIES:
        raise ValueError(f"no placement family {family!r}; there are {', '.join(FAMILIES)}")
    if devices < 1:
        raise ValueError(f"devices is {devices}, expected at least 1")
    fixed = {"line": 1, "dualpipe": 1, "v": 2}
    if family in fixed:
        if chunks not in (None, fixed[family]):
            raise ValueError(f"placement {family!r} has {fixed[family]} chunk(s), not {chunks}")
        return FAMILIES[family](devices)
    count = chunks if chunks is not None else {"interleaved": 2, "wave": 4}[family]
    if count < 1:
        raise ValueError(f"chunks is {count}, expected at least 1")
    return FAMILIES[family](devices, count)
