"""Compiles Pyomo models to matrix form, without a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from pyomo.common.errors import InfeasibleConstraintException
from pyomo.environ import Constraint, Objective, Var, minimize
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy.sparse import csr_array

from milp_plan.core import FormulationError

from .compiled import CompiledModel


def compile_pyomo(model: Any) -> CompiledModel:
    """Return the matrix form of a linear Pyomo model with one objective to minimise.

    A constraint without variables that cannot hold becomes an empty row that cannot hold, so that
    the solver, not an exception, reports the infeasibility.

    Raises
    ------
    FormulationError
        The model maximises, or has not exactly one active objective.
    """
    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) != 1:
        raise FormulationError(
            f"model {model.name!r}: found {len(objectives)} active objectives, expected one"
        )
    if objectives[0].sense != minimize:
        raise FormulationError(
            f"model {model.name!r}: objective {objectives[0].name!r} maximises, expected one to "
            "minimise: negate it"
        )
    try:
        form = LinearStandardFormCompiler().write(model, mixed_form=True)
    except InfeasibleConstraintException as error:
        return _infeasible(model, str(error))
    kinds = np.fromiter((row.bound_type for row in form.rows), dtype=np.int8, count=len(form.rows))
    rhs = np.asarray(form.rhs, dtype=float)
    lowest = [-np.inf if column.lb is None else column.lb for column in form.columns]
    highest = [np.inf if column.ub is None else column.ub for column in form.columns]
    return CompiledModel(
        cost=np.asarray(form.c.todense(), dtype=float).ravel(),
        offset=float(np.asarray(form.c_offset).ravel()[0]),
        matrix=csr_array(form.A.tocsr()),
        row_lower=np.where(kinds <= 0, rhs, -np.inf),
        row_upper=np.where(kinds >= 0, rhs, np.inf),
        column_lower=np.array(lowest, dtype=float),
        column_upper=np.array(highest, dtype=float),
        integrality=np.fromiter(
            (not column.is_continuous() for column in form.columns),
            dtype=np.uint8,
            count=len(form.columns),
        ),
        columns=[_key(column) for column in form.columns],
        row_families=[row.constraint.parent_component().local_name for row in form.rows],
        idle=list(_idle(model, form.columns)),
    )


def _idle(model: Any, columns: Sequence[Any]) -> Iterator[tuple[str, Hashable, float]]:
    """Yield free variables that are no columns, each with its feasible value nearest to 0."""
    used = Counter(id(column.parent_component()) for column in columns)
    known: set[int] | None = None
    for component in model.component_objects(Var, active=True):
        if len(component) == used[id(component)]:
            continue
        known = known or {id(column) for column in columns}
        for entry in component.values():
            if id(entry) not in known and not entry.fixed:
                lowest = -np.inf if entry.lb is None else entry.lb
                highest = np.inf if entry.ub is None else entry.ub
                yield *_key(entry), float(min(max(0.0, lowest), highest))


def _key(column: Any) -> tuple[str, Hashable]:
    return column.parent_component().local_name, column.index()


def _infeasible(model: Any, message: str) -> CompiledModel:
    names = [con.parent_component().local_name for con in model.component_data_objects(Constraint)]
    family = next((name for name in names if f"'{name}" in message), "constant")
    empty = np.zeros(0)
    return CompiledModel(
        cost=empty,
        offset=0.0,
        matrix=csr_array((1, 0), dtype=float),
        row_lower=np.ones(1),
        row_upper=np.full(1, np.inf),
        column_lower=empty,
        column_upper=empty,
        integrality=np.zeros(0, dtype=np.uint8),
        columns=[],
        row_families=[family],
    )
