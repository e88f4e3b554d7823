"""Calls every step of a formulation and checks every number that it returns.

Whatever a step raises, and whatever number it hands over that is none (NaN, infinite, a scale of
zero, half a tick), becomes one :class:`~milp_plan.core.FormulationFailureError` with a sentence;
the run goes on without the formulation.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import FormulationError, FormulationFailureError
from milp_plan.lp import CompiledModel, Values

from .failure import InvalidAnswerError, step
from .protocol import Formulation, Guide, Scale

LARGEST = 10**30
"""Ticks or bytes that a unit or grain of a model may be: what is more leaves no float to count in.
"""

Asked = Formulation[Any, Any]


A_MODEL = "a Pyomo model or a CompiledModel"


def is_model(source: Any) -> bool:
    """Return whether this is what ``build`` may return."""
    return isinstance(source, CompiledModel) or hasattr(source, "component_data_objects")


def compile_source(source: Any) -> CompiledModel:
    """Return what a formulation has built as a matrix."""
    if isinstance(source, CompiledModel):
        return source
    if not is_model(source):
        raise InvalidAnswerError(f"returned a {type(source).__name__}, expected {A_MODEL}")
    from milp_plan.lp.from_pyomo import compile_pyomo

    return compile_pyomo(source)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause cyclic garbage collection: it would walk a growing model again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def built(formulation: Asked, problem: Any, options: Any, guide: Guide) -> Any:
    """Return what the formulation builds, not yet compiled.

    Raises
    ------
    FormulationFailureError
        Its code failed.
    """
    with step(formulation.card.name, "build"):
        return formulation.build(problem, options, guide)


def compiled(formulation: Asked, source: Any) -> CompiledModel:
    """Return what it has built as a matrix whose numbers are numbers.

    Raises
    ------
    FormulationFailureError
        It cannot be compiled, or some number of it is none.
    """
    with step(formulation.card.name, "build"):
        model = compile_source(source)
        for found in _numbers_of(model):
            raise InvalidAnswerError(found)
        return model


def scale_of(formulation: Asked, problem: Any, options: Any, guide: Guide) -> Scale:
    """Return what the formulation's objective counts.

    Raises
    ------
    FormulationFailureError
        It raised or timed out, or nothing can be counted in what it says.
    """
    with step(formulation.card.name, "scale"):
        scale = formulation.scale(problem, options, guide)
        unit, grain, slack = scale.unit, scale.grain, scale.slack
        if not 0 < unit <= LARGEST:
            raise InvalidAnswerError(
                f"handed over a unit of {unit!r}, expected a number above 0, at most {LARGEST:.0e}"
            )
        if type(grain) is not int or not 1 <= grain <= LARGEST:
            raise InvalidAnswerError(
                f"handed over a grain of {grain!r}, expected an int from 1 to {LARGEST:.0e}"
            )
        if not (isfinite(slack) and slack >= 0):
            raise InvalidAnswerError(
                f"handed over a slack of {slack!r}, expected a finite number of at least 0"
            )
        return scale


def start_of(  # noqa: PLR0917 (what encoding is asked with)
    formulation: Asked, problem: Any, options: Any, source: Any, model: CompiledModel, plan: Any
) -> tuple[NDArray[np.float64] | None, str]:
    """Return a plan as a start of its model; ``None`` where it cannot be one, with the reason.

    The reason is empty unless the formulation refuses in words.

    Raises
    ------
    FormulationFailureError
        It raised or timed out, or the start is not complete or not finite.
    """
    with step(formulation.card.name, "encode"):
        try:
            values = formulation.encode(problem, options, source, plan)
        except FormulationFailureError:
            raise
        except FormulationError as error:
            return None, str(error)
        if values is None:
            return None, ""
        vector = model.vector(values)
        for place in np.flatnonzero(~np.isfinite(vector))[:1].tolist():
            where = model.column_text(place)
            raise InvalidAnswerError(f"handed over a start with {vector[place]} in {where}")
        return vector, ""


def plan_of(formulation: Asked, problem: Any, options: Any, guide: Guide, values: Values) -> Any:
    """Return the plan of a solution.

    Raises
    ------
    FormulationError
        It refuses to decode the solution.
    FormulationFailureError
        It raised or timed out, or the plan holds something else than whole numbers.
    """
    with step(formulation.card.name, "decode"):
        plan = formulation.decode(problem, options, guide, values)
        for where, number in _inexact(plan, "plan"):
            raise InvalidAnswerError(
                f"handed over {number!r} of type {type(number).__name__} in {where}, "
                "expected whole numbers (int)"
            )
        return plan


def _numbers_of(model: CompiledModel) -> Iterator[str]:
    """Yield in words what is no number, or has another length than there are columns or rows."""
    columns, rows, matrix = model.num_columns, model.num_rows, model.matrix
    if matrix.shape != (rows, columns):
        yield f"handed over a matrix of shape {matrix.shape}, expected {(rows, columns)}"
        return
    for name, length in (
        ("column_lower", columns),
        ("column_upper", columns),
        ("integrality", columns),
        ("columns", columns),
        ("row_upper", rows),
        ("row_families", rows),
    ):
        found = len(getattr(model, name))
        if found != length:
            yield f"handed over {found} entries of {name}, expected {length}"
            return
    if not isfinite(model.offset):
        yield f"handed over a constant cost of {model.offset}, expected a finite number"
    owners = np.repeat(np.arange(rows), np.diff(matrix.indptr))
    no_low, no_high = np.array([np.inf]), np.array([-np.inf])
    for name, numbers, never, by_column in (
        ("a cost", model.cost, None, True),
        ("a lower bound", model.column_lower, no_low, True),
        ("an upper bound", model.column_upper, no_high, True),
        ("a coefficient", matrix.data, None, False),
        ("a lower side", model.row_lower, no_low, False),
        ("an upper side", model.row_upper, no_high, False),
    ):
        wrong = ~np.isfinite(numbers) if never is None else np.isnan(numbers) | (numbers == never)
        for place in np.flatnonzero(wrong)[:1].tolist():
            row = int(owners[place]) if numbers is matrix.data else place
            where = model.column_text(place) if by_column else f"a row of {model.row_families[row]}"
            yield f"handed over {name} of {numbers[place]} in {where}, expected a finite number"


def _inexact(part: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield what in a plan is no exact number, with the way to it."""
    if is_dataclass(part):
        for entry in fields(part):
            yield from _inexact(getattr(part, entry.name), f"{where}.{entry.name}")
    elif isinstance(part, Mapping):
        for key, entry in part.items():
            yield from _inexact(entry, f"{where}[{key!r}]")
    elif isinstance(part, tuple | list | set | frozenset):
        for number, entry in enumerate(part):
            yield from _inexact(entry, f"{where}[{number}]")
    elif not (part is None or isinstance(part, int | str | Fraction | Enum)):
        yield where, part
