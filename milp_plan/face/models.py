"""Models of formulations: built to be inspected and changed, solved and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milp_plan.core import FormulationError
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import Found, is_path, load, path_of
from milp_plan.models.registry import get as get_formulation
from milp_plan.models.validated import A_MODEL, is_model
from milp_plan.run import Outcome, Settings
from milp_plan.run import solve as solve_any
from milp_plan.run.model import FormulationSolver, make_options

from .given import a_mapping, a_plan, a_problem
from .quantities import count, quoted, refuse, seconds, text

if TYPE_CHECKING:
    import pyomo.environ as pyo


MADE_FOR = "made_for"
"""Attribute of a model that says what it was built of."""

REBUILD = "build it again, or name what it was built from"


class _Changed:
    """A formulation whose model is given: it may leave out plans, so it proves nothing."""

    def __init__(self, formulation: Any, model: Any) -> None:
        self.model = model
        self.card = replace(formulation.card, exact=False)
        self.handles, self.Options = formulation.handles, formulation.Options
        self.unsupported, self.scale = formulation.unsupported, formulation.scale
        self.encode, self.decode = formulation.encode, formulation.decode

    def restricts(self, _options: Any) -> bool:
        return True

    def build(self, _problem: Any, _options: Any, _guide: Guide) -> Any:
        return self.model


def build_model(
    problem: Any, formulation: str, options: Mapping[str, Any] | None = None
) -> pyo.ConcreteModel:
    """Return the model that a formulation writes of a problem, to be inspected and changed.

    Parameters
    ----------
    problem
        What to plan; a :class:`milp_plan.Model` is built first.
    formulation
        Name, or path to a ``.py`` file, whose code runs in this process.
    options
        Of the formulation.

    Returns
    -------
    pyomo.environ.ConcreteModel
        The page of the formulation names its variables and constraints. A few formulations return a
        :class:`milp_plan.api.CompiledModel`, arrays.

    Raises
    ------
    FormulationError
        There is no such formulation, or it is not for this problem.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> model = mp.build_model(problem, "operator_schedule")
    >>> model.makespan.name
    'makespan'
    """
    problem = a_problem(problem, "build_model, problem")
    solver = _solver(text(formulation, "build_model, formulation"), options, "build_model")
    reason = solver.unsupported(problem)
    if reason is not None:
        raise FormulationError(f"{problem.name}: {formulation} does not apply: {reason}")
    model = solver.formulation.build(problem, solver.options, Guide())
    if not is_model(model):
        found = type(model).__name__
        raise FormulationError(f"{formulation}: build returned a {found}, expected {A_MODEL}")
    vars(model)[MADE_FOR] = _question(solver, problem)
    return model


def _question(solver: FormulationSolver, problem: Any) -> dict[str, Any]:
    """Return what a model is an answer to, by name."""
    return {
        "formulation": solver.formulation.card.name,
        "problem": problem.fingerprint,
        "options": repr(solver.options),
    }


def solve_model(
    problem: Any,
    model: Any,
    formulation: str,
    options: Mapping[str, Any] | None = None,
    *,
    time_limit: Any = 60.0,
    start: Any = None,
    seed: int = 0,
    threads: int | None = None,
) -> Outcome[Any, Any]:
    """Solve a model of :func:`build_model`, changed or not, and check its plan on the problem.

    The model may leave out plans, so the outcome has no bound and proves nothing about the
    problem; ``outcome.record["model"]`` has the solver's own value, bound and nodes.

    Parameters
    ----------
    problem, formulation, options
        As the model was built with; others are refused.
    model
        The model.
    time_limit, start, seed, threads
        As of :func:`milp_plan.solve`.

    Raises
    ------
    FormulationError
        There is no such formulation, or it is not for this problem.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> model = mp.build_model(problem, "operator_schedule")
    >>> mp.solve_model(problem, model, "operator_schedule", time_limit=20).value
    110
    """
    problem = a_problem(problem, "solve_model, problem")
    solver = _solver(text(formulation, "solve_model, formulation"), options, "solve_model")
    if not is_model(model):
        refuse("solve_model, model", quoted(model), "a model that build_model returned")
    built, asked = vars(model).get(MADE_FOR), _question(solver, problem)
    for name in [] if built is None else [name for name in asked if asked[name] != built[name]]:
        here = problem.name if name == "problem" else asked[name]
        found = "another problem" if name == "problem" else built[name]
        refuse("solve_model, model", f"a model of {name} {found}", f"one of {here}", REBUILD)
    changed: Any = _Changed(solver.formulation, model)
    settings = Settings(
        time_limit_s=seconds(time_limit, "solve_model, time_limit"),
        start=None if start is None else a_plan(problem, start, "solve_model, start"),
        seed=count(seed, "solve_model, seed", 0),
        threads=None if threads is None else count(threads, "solve_model, threads", 1),
        formulation=formulation,
        only=True,
    )
    named = FormulationSolver(
        replace(solver.found, formulation=changed), solver.options, guided=False
    )
    return solve_any(problem, settings, solver=named)


def _solver(formulation: str, options: Mapping[str, Any] | None, verb: str) -> FormulationSolver:
    """Return a formulation that is loaded in this process, with its options."""
    found: Found = (
        load(path_of(formulation)) if is_path(formulation) else get_formulation(formulation)
    )
    if found.formulation is None:
        raise FormulationError(f"formulation {formulation!r}: {found.error}")
    return FormulationSolver(found, make_options(found, a_mapping(options, f"{verb}, options")))
