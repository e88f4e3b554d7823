"""Plan how a deep-learning computation graph runs on a cluster: exact, checked, bounded.

The public face, for scripts and notebooks. Four operators in the form of a diamond, on two devices:

>>> import milp_plan as mp
>>> model = mp.Model("diamond", time_unit="ms")
>>> first, second = model.add_devices(2, memory="1GiB")
>>> model.connect(first, second, bandwidth="25GB/s", latency="5us")
>>> a, b, c, d = (model.add_operator(n, t) for n, t in zip("abcd", (2, 6, 5, 2)))
>>> for source, target in ((a, b), (a, c), (b, d), (c, d)):
...     value = model.add_value(source, target, bytes="50MB")
>>> outcome = mp.solve(model, time_limit="20s")
>>> outcome
<Outcome diamond: makespan 12.005 ms, proved optimal>

Verbs take problems of every kind, and models:

=================  ===================================================================
``read``           a problem from a file of any format
``read_plan``      a plan of it
``generate``       a problem from a published architecture and a cluster
``solve``          the best plan within a time, with a proven bound: an ``Outcome``
``check``          hold any plan against every law: a ``Verdict``
``bound``          what no plan can beat: a ``Bound``
``explain``        why a value is what it is, what if, or why there is no plan
``diff``           what differs between two plans, and what that costs
``sweep``          a problem under many limits, each planned from its neighbours
``draw``           a picture of a plan
``to_frame``       a plan as a table (pandas)
``write``          a problem or a plan to a file
``build_model``    the Pyomo model that a formulation writes, to inspect and change
``solve_model``    the plan of such a model, checked
``from_networkx``  a placement problem from a graph, and ``to_networkx`` back
=================  ===================================================================

Nouns: ``Model`` builds a placement problem call by call (its calls return a ``Handle``);
``PlanningProblem`` with ``ComputationGraph``, ``Operator``, ``Option``, ``Value``, ``Cluster``,
``Device``, ``DeviceClass``, ``Channel``, ``Objective``, ``SerialLaw`` is what it builds. ``Plan``,
``Verdict``, ``Bound``, ``Explanation``, ``Comparison``, ``Variants`` and ``Outcome`` are answers;
``Settings``, ``Progress`` and ``Incumbent`` are what a run is asked and what it says on the way.
What is wrong with an input is an ``InputError``; every error that is raised on purpose is a
``MilpPlanError``.

Problems, plans and outcomes show themselves with ``print``, with rich and in notebooks; plans and
outcomes have ``to_frame()`` and ``draw()``; all of them can be pickled. Names are loaded when they
are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .core import (
        Channel,
        Cluster,
        ComputationGraph,
        Device,
        DeviceClass,
        InputError,
        MilpPlanError,
        Objective,
        Operator,
        Option,
        Plan,
        PlanningProblem,
        SerialLaw,
        Value,
        Verdict,
    )
    from .core.bound import Bound
    from .face.machines import Handle
    from .face.model import Model
    from .face.models import build_model, solve_model
    from .face.networks import from_networkx, to_networkx
    from .face.reasons import Explanation, explain
    from .face.variants import Variants, diff, sweep
    from .face.verbs import bound, check, draw, generate, read, read_plan, solve, to_frame, write
    from .run import Incumbent, Outcome, Progress, Settings
    from .run.comparison import Comparison

_HOMES = {
    **dict.fromkeys(("bound", "generate", "read", "read_plan"), "face.verbs"),
    **dict.fromkeys(("solve", "to_frame", "write"), "face.verbs"),
    **dict.fromkeys(("from_networkx", "to_networkx"), "face.networks"),
    **dict.fromkeys(("Incumbent", "Outcome", "Progress", "Settings"), "run"),
    **dict.fromkeys(("Channel", "Cluster", "ComputationGraph", "Device", "DeviceClass"), "core"),
    **dict.fromkeys(("Objective", "Operator", "Option", "Plan", "PlanningProblem"), "core"),
    **dict.fromkeys(("InputError", "MilpPlanError", "SerialLaw", "Value", "Verdict"), "core"),
    **dict.fromkeys(("diff", "sweep"), "face.variants"),
    **dict.fromkeys(("build_model", "solve_model"), "face.models"),
    "Bound": "core.bound",
    "Comparison": "run.comparison",
    "Explanation": "face.reasons",
    "Handle": "face.machines",
    "Model": "face.model",
    "Variants": "face.variants",
    "explain": "face.reasons",
}

_VERBS = ("check", "draw")
"""Rooms whose name is a verb of the face: calling the room does it."""

__all__ = [
    "Bound",
    "Channel",
    "Cluster",
    "Comparison",
    "ComputationGraph",
    "Device",
    "DeviceClass",
    "Explanation",
    "Handle",
    "Incumbent",
    "InputError",
    "MilpPlanError",
    "Model",
    "Objective",
    "Operator",
    "Option",
    "Outcome",
    "Plan",
    "PlanningProblem",
    "Progress",
    "SerialLaw",
    "Settings",
    "Value",
    "Variants",
    "Verdict",
    "__version__",
    "bound",
    "build_model",
    "check",
    "diff",
    "draw",
    "explain",
    "from_networkx",
    "generate",
    "read",
    "read_plan",
    "solve",
    "solve_model",
    "sweep",
    "to_frame",
    "to_networkx",
    "write",
]


class _Room(ModuleType):
    """A room that can be called: ``mp.check(problem, plan)`` beside ``milp_plan.check.verify``."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        verb = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"{__name__}.face.verbs"), verb)(*given, **named)


class _Face(ModuleType):
    """The package itself, as the import system hangs its rooms in.

    Rooms that are verbs become callable, and ``core`` learns who shows its problems and plans.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "core":
            value.shown.Shown.presenter = lambda: import_module(f"{__name__}.face.presenting")
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


def __dir__() -> list[str]:
    """Return the public names, loaded or not: what completion offers."""
    return sorted(__all__)
