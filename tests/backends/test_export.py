"""Models as LP and MPS files: what another solver reads is the same model."""

from __future__ import annotations

import gzip
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from scipy.sparse import csr_array

from milp_plan.backends import export
from milp_plan.core import BackendFailureError, Placement
from milp_plan.lp import CompiledModel

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


def test_a_writer_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        highspy.Highs, "writeModel", lambda *_: highspy.HighsStatus.kError, raising=False
    )
    with pytest.raises(BackendFailureError, match="mps"):
        export.write_model(model(), tmp_path / "x.mps", "mps")
    assert not list(tmp_path.iterdir())
