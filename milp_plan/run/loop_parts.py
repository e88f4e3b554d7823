"""Compiled loops that a run needs together, as a kind declares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from milp_plan.core.compiled import kept

SEARCH_S = 1.0
"""Seconds of searches that only the clock ends; compiling comes on top."""

END_S = 60.0
"""Seconds of searches that end by themselves: what they compile on the way may take most of it."""


@dataclass(frozen=True)
class LoopPart:
    """Loops that are compiled together, and a function that calls each of them once.

    Parameters
    ----------
    name
        Shown by ``milp-plan compile``; steps of ways name it.
    function
        ``"module:function"``; the function calls the loops on a small problem.
    last
        ``"module:loop"`` of a loop that is compiled after most others: once it is on disk, so are
        they. Empty where no run compiles the part in advance.
    after
        Name of a part that compiles most of the same loops: this part waits for it.
    """

    name: str
    function: str
    last: str = ""
    after: str = ""

    @property
    def on_disk(self) -> bool:
        """Whether most of its loops were compiled before."""
        return bool(self.last) and kept(self.last)

    def compile(self) -> None:
        """Call every loop of the part once."""
        call(self.function)


def call(function: str) -> None:
    """Call a function that is named ``"module:function"``."""
    module, _, name = function.partition(":")
    cast(Callable[[], None], getattr(import_module(module), name))()
