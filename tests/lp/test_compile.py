"""Pyomo models as matrices, against matrices written by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import inf

import numpy as np
import pyomo.environ as pyo
import pytest

from milp_plan.core import FormulationError
from milp_plan.lp import CompiledModel
from milp_plan.lp.from_pyomo import compile_pyomo


def small() -> pyo.ConcreteModel:
    """Return minimise 3 x[a] + 2 y + 5 with one row of each kind and a column nobody uses."""
    m = pyo.ConcreteModel("small")
    m.x = pyo.Var(["a", "b"], domain=pyo.Binary)
    m.y = pyo.Var(bounds=(-1, None))
    m.z = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, 7))
    m.unused = pyo.Var(bounds=(0, 1))
    m.most = pyo.Constraint(expr=2 * m.x["a"] + m.y <= 4)
    m.least = pyo.ConstraintList()
    m.least.add(m.x["a"] + m.x["b"] >= 1)
    m.least.add(m.y - m.z >= -3)
    m.equal = pyo.Constraint(expr=m.x["b"] + m.z == 2)
    m.between = pyo.Constraint(expr=pyo.inequality(-1, m.y + m.z, 6))
    m.cost = pyo.Objective(expr=3 * m.x["a"] + 2 * m.y + 5)
    return m


def test_what_nothing_uses_is_decoded_like_the_rest() -> None:
    m = small()
    m.idle = pyo.Var(["high", "free", "fixed"], bounds=lambda _, i: (3, 9) if i == "high" else None)
    m.idle["fixed"].fix(1)
    model = compile_pyomo(m)
    named = model.name_values(np.zeros(model.num_columns))
    assert named["idle"] == {"high": 3, "free": 0}
    assert named["unused"] == {None: 0}
    assert {(f, i) for f, row in named.items() for i in row} - {*model.columns} == {
        ("idle", "high"),
        ("idle", "free"),
        ("unused", None),
    }


def test_rows_columns_and_bounds() -> None:
    model = compile_pyomo(small())
    names = [family if index is None else (family, index) for family, index in model.columns]
    assert set(names) == {("x", "a"), ("x", "b"), "y", "z"}, "a column nobody uses is left out"
    at = {name: position for position, name in enumerate(names)}
    order = [at[("x", "a")], at[("x", "b")], at["y"], at["z"]]
    assert model.offset == 5
    assert model.cost[order].tolist() == [3, 0, 2, 0]
    assert model.column_lower[order].tolist() == [0, 0, -1, 0]
    assert model.column_upper[order].tolist() == [1, 1, inf, 7]
    assert model.integrality[order].tolist() == [1, 1, 0, 1]
    rows = {
        (family, tuple(line), low, high)
        for family, line, low, high in zip(
            model.row_families,
            model.matrix.toarray()[:, order].tolist(),
            model.row_lower.tolist(),
            model.row_upper.tolist(),
            strict=True,
        )
    }
    ranged = {row for row in rows if row[0] == "between"}
    assert rows - ranged == {
        ("most", (2, 0, 1, 0), -inf, 4),
        ("least", (1, 1, 0, 0), 1, inf),
        ("least", (0, 0, 1, -1), -3, inf),
        ("equal", (0, 1, 0, 1), 2, 2),
    }
    lows = max(row[2] for row in ranged)
    highs = min(row[3] for row in ranged)
    assert (lows, highs) == (-1, 6)
    assert {row[1] for row in ranged} == {(0, 0, 1, 1)}
    assert model.families()["least"] == 2
    assert (model.num_columns, model.num_rows) == (4, len(rows))


def test_a_fixed_variable_is_a_number() -> None:
    m = small()
    m.y.fix(1.5)
    model = compile_pyomo(m)
    assert "y" not in {family for family, _ in model.columns}
    assert model.offset == 8
    most = model.row_families.index("most")
    assert model.row_upper[most] == 2.5


def test_a_row_that_cannot_hold_is_for_the_solver_to_report() -> None:
    m = small()
    for column in m.x.values():
        column.fix(0)
    model = compile_pyomo(m)
    assert model.families() == {"least": 1}
    assert model.num_columns == 0
    amount, where = model.violation(np.zeros(0))
    assert (amount, where) == (1.0, "row of family least")


def test_what_is_not_one_minimisation_is_refused() -> None:
    m = small()
    m.cost.sense = pyo.maximize
    with pytest.raises(FormulationError, match="maximises, expected one to minimise: negate it"):
        compile_pyomo(m)
    m.cost.deactivate()
    with pytest.raises(FormulationError, match="found 0 active objectives"):
        compile_pyomo(m)


def changed(model: CompiledModel, name: str) -> CompiledModel:
    array = np.array(getattr(model, name))
    array[-1] = 1 - array[-1] if name == "integrality" else 17
    return replace(model, **{name: array})


def test_the_hash_sees_every_number_and_no_name() -> None:
    model = compile_pyomo(small())
    assert compile_pyomo(small()).content_hash == model.content_hash
    parts = ["cost", "row_lower", "row_upper", "column_lower", "column_upper", "integrality"]
    others = [changed(model, name) for name in parts]
    others.append(replace(model, offset=6.0))
    matrix = model.matrix.copy()
    matrix.data[0] += 1
    others.append(replace(model, matrix=matrix))
    swapped = model.matrix.copy()
    swapped.indices[:2] = swapped.indices[:2][::-1]
    others.append(replace(model, matrix=swapped))
    others.append(model.relaxed())
    hashes = {model.content_hash, *(other.content_hash for other in others)}
    assert len(hashes) == len(others) + 1
    renamed = replace(model, columns=[("q", i) for i in range(model.num_columns)])
    assert renamed.content_hash == model.content_hash


def test_vectors_and_names() -> None:
    model = compile_pyomo(small())
    vector = np.arange(model.num_columns, dtype=float)
    values = model.name_values(vector)
    assert set(values) == {"x", "y", "z", "unused"}
    assert set(values["x"]) == {"a", "b"}
    assert model.vector(values).tolist() == vector.tolist()
    del values["x"]["a"]
    with pytest.raises(KeyError):
        model.vector(values)


def values(a: float, b: float, y: float, z: float) -> dict[str, dict[object, float]]:
    return {"x": {"a": a, "b": b}, "y": {None: y}, "z": {None: z}}


@pytest.mark.parametrize(
    ("point", "amount", "where"),
    [
        (values(1, 0, 2, 2), 0.0, ""),
        (values(1, 0, 3, 2), 1.0, "row of family most"),
        (values(0, 0, 0, 2), 1.0, "row of family least"),
        (values(0, 1, 1, 3), 2.0, "row of family equal"),
        (values(1, 1, -1.5, 1), 0.5, "column y[None]"),
        (values(1, 0.25, 1, 1.75), 0.25, "column"),
    ],
)
def test_violations(point: dict[str, dict[object, float]], amount: float, where: str) -> None:
    model = compile_pyomo(small())
    found, place = model.violation(model.vector(point))
    assert found == pytest.approx(amount)
    if amount:
        assert place.startswith(where)


def test_nothing_violates_nothing() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 1))
    m.cost = pyo.Objective(expr=m.x)
    model = compile_pyomo(m)
    assert model.num_rows == 0
    assert model.violation(np.zeros(1))[0] == 0.0
    assert model.violation(np.full(1, 3.0)) == (2.0, "column x[None]")


def test_pyomo_comes_without_what_it_takes_of_scipy_and_who_asks_later_gets_it() -> None:
    code = (
        "import sys; from milp_plan.lp.loading import SPARED, load_pyomo; load_pyomo(); "
        "assert 'pyomo.environ' in sys.modules and not set(SPARED) & set(sys.modules); "
        "import scipy.integrate, scipy.spatial; scipy.integrate.quad, scipy.spatial.KDTree"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
