"""Finding formulations: shipped, by path, by entry point, and broken ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from milp_plan.api import Guide, Objective
from milp_plan.core import FormulationError
from milp_plan.formulation import registry
from milp_plan.formulation.planted import planted
from milp_plan.formulation.protocol import Formulation

SHIPPED = registry.shipped_folders()[0]


def test_shipped_formulations_are_found_by_name_with_their_page() -> None:
    found = registry.discover()
    assert {"operator_schedule", "resource_load"} <= found.keys()
    for name, item in found.items():
        assert item.error is None
        assert isinstance(item.formulation, Formulation)
        path = Path(item.reference)
        assert path.stem == name == item.formulation.card.name
        assert path.with_suffix(".md").read_text().startswith(f"# {name}\n")
        assert item.file_hash == hashlib.sha256(path.read_bytes()).hexdigest()


def test_shipped_formulations_import_nothing_else_of_the_package() -> None:
    for path in SHIPPED.glob("*.py"):
        lines = [line for line in path.read_text().splitlines() if "milp_plan" in line]
        imports = [
            line for line in lines if line.startswith(("from milp_plan", "import milp_plan"))
        ]
        assert imports == ["from milp_plan.api import ("]


def test_by_path_and_by_unknown_name(tmp_path: Path) -> None:
    copy = tmp_path / "mine.py"
    copy.write_text((SHIPPED / "resource_load.py").read_text())
    assert registry.get(str(copy)).formulation is not None
    assert registry.get("resource_load").reference.endswith("resource_load.py")
    with pytest.raises(FormulationError, match=r"'none': found no such name.*'resource_load'"):
        registry.get("none")
    with pytest.raises(FormulationError, match="FileNotFoundError"):
        registry.get(str(tmp_path / "missing.py"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "defines no FORMULATION"),
        ("class F:\n    card = None\nFORMULATION = F()", "FORMULATION lacks Options, unsupported"),
    ],
)
def test_a_broken_file_is_listed_and_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    (tmp_path / "resource_load.py").write_text("raise RuntimeError('second of its name')")
    monkeypatch.setattr(registry, "shipped_folders", lambda: (SHIPPED, tmp_path))
    found = registry.discover()
    assert found["broken"].formulation is None
    assert error in (found["broken"].error or "")
    assert found["resource_load"].formulation is not None, "the first of a name wins"
    with pytest.raises(FormulationError, match=r"broken.*broken\.py"):
        registry.get("broken")


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = registry.get("resource_load").formulation

    def fail() -> None:
        raise ImportError("not today")

    points = [
        SimpleNamespace(name="elsewhere", value="package:OBJECT", load=lambda: foreign),
        SimpleNamespace(name="bad", value="package:BAD", load=fail),
        SimpleNamespace(name="odd", value="package:ODD", load=lambda: 3),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "shipped_folders", lambda: ())
    found = registry.discover()
    assert found.keys() == {"resource_load", "bad", "odd"}
    assert found["resource_load"].file_hash is None
    assert found["bad"].error == "ImportError: not today"
    assert "lacks card" in (found["odd"].error or "")


def test_shipped_formulations_refuse_what_they_cannot_do() -> None:
    schedule, load = (
        registry.get(name).formulation for name in ("operator_schedule", "resource_load")
    )
    assert schedule is not None
    assert load is not None
    bottleneck, makespan = (planted(0, goal) for goal in (Objective.BOTTLENECK, Objective.MAKESPAN))
    assert "bottleneck" in (schedule.unsupported(bottleneck, schedule.Options()) or "")
    assert schedule.unsupported(makespan, schedule.Options()) is None
    assert "not bottleneck" in (load.unsupported(makespan, load.Options()) or "")
    assert load.unsupported(bottleneck, load.Options()) is None
    assert Guide() == Guide(memory=True)
