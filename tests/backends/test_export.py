"""Models as LP and MPS files: what another solver reads is the same model."""

from __future__ import annotations

import gzip
import re
import tracemalloc
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from scipy.sparse import csr_array

from milp_plan.backends import export
from milp_plan.backends.worker import _pass_model
from milp_plan.core import Placement
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.schedule.model.planted import planted, planted_pipeline
from milp_plan.lp import CompiledModel
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.models.validated import compile_source
from tests.support.planted_local_updates import planted_local_updates
from tests.support.planted_rematerialisation import planted_remat
from tests.support.planted_resharding import planted_resharding
from tests.support.planted_sharding import planted_sharding

COLUMNS: list[tuple[str, Hashable]] = [
    ("place", ("layer.0/attention", Placement("all2", ("d0", "d1")))),
    ("place", ("layer.0 attention", Placement("all2", ("d0", "d1")))),
    ("makespan", None),
    ("free", None),
    ("e1", 3),
    ("start", ("x" * 300,)),
    ("start", ("x" * 299 + "y",)),
]


def model() -> CompiledModel:
    """Minimise the sum of all columns, of which two rows ask 1.5 and 2."""
    count = len(COLUMNS)
    rows = np.zeros((2, count))
    rows[0, :3] = 1.0
    rows[1, 3:] = 1.0
    return CompiledModel(
        cost=np.arange(1.0, count + 1),
        offset=10.0,
        matrix=csr_array(rows),
        row_lower=np.array([1.5, 2.0]),
        row_upper=np.array([np.inf, 2.0]),
        column_lower=np.zeros(count),
        column_upper=np.array([1.0, 1.0, np.inf, 1.0, np.inf, np.inf, 5.0]),
        integrality=np.array([1, 1, 0, 0, 1, 0, 0], dtype=np.uint8),
        columns=COLUMNS,
        row_families=["cover", "cover"],
    )


def read_back(path: Path) -> Any:
    """HiGHS with the model of a file."""
    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    return highs


MAKERS: dict[str, Callable[[int], Any]] = {
    "operator_schedule": planted,
    "resource_load": planted,
    "pipeline_order": lambda seed: planted_pipeline(seed)[0],
    "serial_places": lambda seed: planted_serial(seed)[0],
    "sharding": lambda seed: planted_sharding(seed)[0],
    "remat_staged": lambda seed: planted_remat(seed)[0],
    "local_updates": lambda seed: planted_local_updates(seed)[0],
    "resharding": lambda seed: planted_resharding(seed)[0],
}


def planted_model(name: str) -> CompiledModel:
    """The model of the first planted problem that a formulation is for."""
    formulation = get(name).formulation
    assert formulation is not None
    options = formulation.Options()
    for problem in map(MAKERS[name], range(40)):
        if formulation.unsupported(problem, options) is None:
            return compile_source(formulation.build(problem, options, Guide()))
    raise AssertionError(f"nothing planted is for {name}")


@pytest.mark.parametrize("kind", ["lp", "mps"])
def test_written_model_is_the_model(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / f"model.{kind}"
    export.write_model(model(), path, kind)
    highs = read_back(path)
    lp = highs.getLp()
    costs = dict(zip(lp.col_names_, lp.col_cost_, strict=True))
    names = export.unique(export.column_name(*column) for column in COLUMNS)
    assert costs == dict(zip(names, model().cost, strict=True))
    assert sorted(lp.row_names_) == ["cover(1)", "cover(2)"]
    highs.run()
    # 1.5 = one of the first and half of the third; 2 = one of the fourth and one of the fifth
    assert highs.getInfo().objective_function_value == pytest.approx(10 + 1 + 1.5 + 4 + 5)


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "model.lp.gz"
    export.write_model(model(), path, "lp")
    assert b"cover(1)" in gzip.decompress(path.read_bytes())


@pytest.mark.parametrize("kind", ["lp", "mps"])
def test_model_that_cannot_hold(kind: Any, tmp_path: Path) -> None:
    empty = np.zeros(0)
    hopeless = CompiledModel(
        cost=empty,
        offset=0.0,
        matrix=csr_array((1, 0), dtype=float),
        row_lower=np.ones(1),
        row_upper=np.full(1, np.inf),
        column_lower=empty,
        column_upper=empty,
        integrality=np.zeros(0, dtype=np.uint8),
        columns=[],
        row_families=["constant"],
    )
    path = tmp_path / f"model.{kind}"
    export.write_model(hopeless, path, kind)
    highs = read_back(path)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible


def test_names_can_be_read_and_are_allowed() -> None:
    names = export.unique(export.column_name(*column) for column in COLUMNS)
    assert names[0] == "place(layer.0_attention,all2,d0,d1)"
    assert names[1] == "place(layer.0_attention,all2,d0,d1)#1"
    assert names[2] == "makespan"
    assert names[3] == "_free"
    assert names[4] == "_e1(3)"
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= export.LONGEST_NAME
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.,()#]*", name)


def test_name_of_odd_parts() -> None:
    assert export.column_name("", ("", ())) == "_(_)"
    assert export.column_name("2x", None) == "_2x"


def by_highs(compiled: CompiledModel, path: Path) -> Any:
    """HiGHS with a model that it was given as arrays, wrote itself and has read again."""
    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    _pass_model(highs, compiled)
    named = highs.getLp()
    named.col_names_ = export.unique(export.column_name(*column) for column in compiled.columns)
    named.row_names_ = export.unique(export._numbered(compiled.row_families))
    assert highs.passModel(named) != highspy.HighsStatus.kError
    assert highs.writeModel(str(path)) != highspy.HighsStatus.kError
    return read_back(path)


def contents(highs: Any, digits: int = 17) -> tuple[Any, ...]:
    """Columns and rows by name, and the constant of the objective."""

    def cut(numbers: Any) -> list[float]:
        return [float(f"{number:.{digits}g}") for number in numbers]

    lp = highs.getLp()
    kinds = [int(kind) for kind in lp.integrality_] or [0] * lp.num_col_
    sides = zip(cut(lp.col_lower_), cut(lp.col_upper_), cut(lp.col_cost_), kinds, strict=True)
    columns = dict(zip(lp.col_names_, sides, strict=True))
    rows: dict[str, Any] = {}
    for row, name in enumerate(lp.row_names_):
        _, places, factors = highs.getRowEntries(row)
        entries = {lp.col_names_[p]: f for p, f in zip(places, cut(factors), strict=True)}
        rows[name] = (*cut((lp.row_lower_[row], lp.row_upper_[row])), entries)
    return columns, rows, lp.offset_


@pytest.mark.parametrize("kind", ["lp", "mps"])
@pytest.mark.parametrize("name", MAKERS)
def test_files_hold_what_highs_would_write(name: str, kind: Any, tmp_path: Path) -> None:
    compiled = planted_model(name)
    ours, theirs = tmp_path / f"ours.{kind}", tmp_path / f"theirs.{kind}"
    export.write_model(compiled, ours, kind)
    expected, found = by_highs(compiled, theirs), read_back(ours)
    assert contents(found, 15) == contents(expected, 15)  # as many as HiGHS writes
    for highs in (expected, found):
        highs.run()
    solved = expected.getInfo().objective_function_value
    assert found.getInfo().objective_function_value == pytest.approx(solved)
    assert found.getModelStatus() == expected.getModelStatus() == highspy.HighsModelStatus.kOptimal


@pytest.mark.parametrize("kind", ["lp", "mps"])
def test_odd_sides(kind: Any, tmp_path: Path) -> None:
    inf = np.inf
    rows = np.array([[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, 0, 0], [2, 0, 1, 0], [0, 1e-3, 1e9, 0.0]])
    odd = CompiledModel(
        cost=np.array([39.000000039999996, 0, 1e10, 0]),
        offset=-0.5,
        matrix=csr_array(rows),
        row_lower=np.array([1, -2.0, -1, -inf, 4]),
        row_upper=np.array([3, inf, 1, inf, 4.0]),
        column_lower=np.array([-4, -inf, -3, 2.0]),
        column_upper=np.array([-1, inf, inf, 7]),
        integrality=np.array([1, 0, 1, 1], dtype=np.uint8),
        columns=[("x", place) for place in range(4)],
        row_families=["two", "least", "none", "free", "same"],
    )
    path = tmp_path / f"odd.{kind}"
    export.write_model(odd, path, kind)
    columns, held, offset = contents(read_back(path))
    assert columns == {
        "x(0)": (-4, -1, 39.000000039999996, 1),
        "x(1)": (-inf, inf, 0, 0),
        "x(2)": (-3, inf, 1e10, 1),
        "x(3)": (2, 7, 0, 1),
    }
    assert offset == -0.5
    assert held["same(1)"] == (4, 4, {"x(1)": 1e-3, "x(2)": 1e9})
    assert held["least(1)"] == (-2, inf, {"x(0)": 1, "x(1)": -1})
    two = ["two(1)"] if kind == "mps" else ["two(1)lo", "two(1)up"]
    assert max(held[name][0] for name in two) == 1
    assert min(held[name][1] for name in two) == 3
    assert not any(name.startswith("free") for name in held)


@pytest.mark.parametrize("kind", ["lp", "mps"])
def test_text_is_not_kept(kind: Any, tmp_path: Path) -> None:
    columns, rows, each = 4_000, 6_000, 25
    rng = np.random.default_rng(1)
    starts = np.arange(0, each * rows + 1, each)
    places = rng.integers(0, columns, each * rows)
    large = CompiledModel(
        cost=np.ones(columns),
        offset=0.0,
        matrix=csr_array((rng.random(each * rows), places, starts), shape=(rows, columns)),
        row_lower=np.zeros(rows),
        row_upper=np.full(rows, np.inf),
        column_lower=np.zeros(columns),
        column_upper=np.ones(columns),
        integrality=np.ones(columns, dtype=np.uint8),
        columns=[("column", place) for place in range(columns)],
        row_families=["row"] * rows,
    )
    path = tmp_path / f"large.{kind}"
    reported: list[tuple[int, int]] = []
    tracemalloc.start()
    try:
        export.write_model(large, path, kind, lambda *progress: reported.append(progress))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = path.stat().st_size
    assert size > 4_000_000
    assert peak < size
    count = rows if kind == "lp" else columns
    assert reported == sorted(reported)
    assert reported[-1] == (count, count)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x.mps"
    path.write_text("old")

    def stop(done: int, count: int) -> None:
        raise KeyboardInterrupt(f"{done} of {count}")

    with pytest.raises(KeyboardInterrupt):
        export.write_model(model(), path, "mps", stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
