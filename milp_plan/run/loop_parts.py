"""Groups of compiled loops that a run needs together; kinds declare them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from milp_plan.core.compiled import kept

SEARCH_S = 1.0
"""Time limit in seconds of searches that only the clock ends; compiling takes extra time."""

END_S = 60.0
"""Time limit in seconds of searches that end by themselves; compiling may take most of it."""


@dataclass(frozen=True)
class LoopPart:
    """Loops that are compiled together, and a function that calls each of them once.

    Parameters
    ----------
    name
        Name that ``milp-plan compile`` shows.
    function
        ``"module:function"``; the function calls the loops on a small problem.
    last
        ``"module:loop"`` of a loop that is compiled after most others: once it is on disk, they
        are too. Empty where no run compiles the part in advance.
    after
        Name of a part that compiles most of the same loops; this part waits for it.
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
    """Call the function of a name ``"module:function"``."""
    module, _, name = function.partition(":")
    cast(Callable[[], None], getattr(import_module(module), name))()
