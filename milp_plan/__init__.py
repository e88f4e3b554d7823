"""Plan how a deep-learning computation graph runs on a cluster: exact, checked, bounded.

The public face, for scripts and notebooks::

    import milp_plan as mp

    problem = mp.read("instance.json")
    outcome = mp.solve(problem, time_limit_s=20)
    mp.check(problem, outcome.plan).ok
    mp.bound(problem, time_limit_s=5)
    mp.draw(problem, outcome.plan, "plan.png")

Nouns (``Operator``, ``Value``, ``Cluster``, ``PlanningProblem``, ``Plan`` ...) are here as well.
Names are loaded when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core import (
        Channel,
        Cluster,
        ComputationGraph,
        Device,
        DeviceClass,
        Objective,
        Operator,
        Option,
        Plan,
        PlanningProblem,
        Value,
        Verdict,
    )
    from .core.bound import Bound
    from .face import bound, read, solve, write
    from .run import Outcome, Progress, Settings

_HOMES = {
    **dict.fromkeys(("bound", "read", "solve", "write"), "face"),
    **dict.fromkeys(("Outcome", "Progress", "Settings"), "run"),
    **dict.fromkeys(("Channel", "Cluster", "ComputationGraph", "Device", "DeviceClass"), "core"),
    **dict.fromkeys(("Objective", "Operator", "Option", "Plan", "PlanningProblem"), "core"),
    **dict.fromkeys(("Value", "Verdict"), "core"),
    "Bound": "core.bound",
}

_VERBS = ("check", "draw")
"""Rooms whose name is a verb of the face: calling the room does it."""

__all__ = [
    "Bound",
    "Channel",
    "Cluster",
    "ComputationGraph",
    "Device",
    "DeviceClass",
    "Objective",
    "Operator",
    "Option",
    "Outcome",
    "Plan",
    "PlanningProblem",
    "Progress",
    "Settings",
    "Value",
    "Verdict",
    "__version__",
    "bound",
    "read",
    "solve",
    "write",
]


class _Room(ModuleType):
    """A room that can be called: ``mp.check(problem, plan)`` beside ``milp_plan.check.verify``."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        verb = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"{__name__}.face"), verb)(*given, **named)


class _Face(ModuleType):
    """The package itself: its rooms become callable as the import system hangs them in."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _VERBS and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
