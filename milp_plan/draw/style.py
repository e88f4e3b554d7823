"""Settings of matplotlib for all figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "milp_plan",
    "text.parse_math": False,  # names hold dollar signs and backslashes
}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Apply the common settings inside, in place of the caller's settings."""
    from matplotlib import rc_context, rcParamsDefault

    with rc_context({**rcParamsDefault, **STYLE}):
        yield
