"""Finding formulations: shipped, by path, by entry point, and broken ones."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import pickle
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from milp_plan.api import Guide, Objective
from milp_plan.core import FormulationError
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.schedule.model.planted import planted
from milp_plan.models import registry
from milp_plan.models.isolated import Isolated
from milp_plan.models.protocol import Formulation

SHIPPED = registry.shipped_folders()[0]


def test_shipped_formulations_are_packages_with_a_page() -> None:
    found = registry.discover()
    assert {"operator_schedule", "resource_load"} <= found.keys()
    for name, item in found.items():
        assert item.error is None
        assert isinstance(item.formulation, Formulation)
        path = Path(item.reference)
        assert path.name == name == item.formulation.card.name
        assert (path / "page.md").read_text().startswith(f"# {name}\n")
        assert type(item.formulation).__module__ == f"formulations.{name}"


def test_shipped_formulations_are_imported_once() -> None:
    first, again = (registry.get("sharding").formulation for _ in range(2))
    assert first is again
    assert pickle.loads(pickle.dumps(type(first))) is type(first)


def test_shipped_formulations_are_importable_where_they_are_not_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if f"{name}.".startswith("formulations.")]:
        monkeypatch.delitem(sys.modules, name)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "formulations" else find_spec(name),
    )
    kind = type(registry.get("sharding").formulation)
    assert pickle.loads(pickle.dumps(kind)) is kind
    for name in [name for name in sys.modules if f"{name}.".startswith("formulations.")]:
        monkeypatch.delitem(sys.modules, name)


def test_shipped_formulations_import_what_formulations_may() -> None:
    known = {*sys.stdlib_module_names, "numpy", "scipy", "pyomo"}
    paths = list(SHIPPED.rglob("*.py"))
    assert len(paths) > 10
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, f"{path}: imports from outside its package"
            elif isinstance(node, ast.ImportFrom):
                inside = node.module == "milp_plan"
                name = f"milp_plan.{node.names[0].name}" if inside else str(node.module)
                ours = name == "milp_plan.api" or name.startswith("milp_plan.kinds.")
                assert ours or name.partition(".")[0] in known, path
            elif isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= known, path


def test_by_path_and_by_unknown_name(tmp_path: Path) -> None:
    copy = tmp_path / "mine.py"
    copy.write_text((SHIPPED / "resource_load" / "__init__.py").read_text())
    assert isinstance(registry.get(str(copy)).formulation, Isolated)
    assert registry.get(str(copy)).file_hash == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert registry.get("resource_load").reference.endswith("resource_load")
    with pytest.raises(FormulationError, match=r"'none': found no such name.*resource_load"):
        registry.get("none")
    with pytest.raises(FormulationError, match="there is no such file or folder"):
        registry.get(str(tmp_path / "missing.py"))


def test_a_package_anywhere_is_loaded_as_it_is_now(tmp_path: Path) -> None:
    """Its modules import each other relatively; all of them are read again, and hashed."""
    package = tmp_path / "mine"
    shutil.copytree(SHIPPED / "pipeline_period", package)
    found = registry.get(str(package))
    assert isinstance(found.formulation, Isolated)
    loaded = registry.load(package).formulation
    assert type(loaded).__module__ != "formulations.pipeline_period"
    (package / "page.md").write_text("another page")
    assert found.file_hash == registry.get(str(package)).file_hash
    rows = package / "rows.py"
    rows.write_text(rows.read_text() + "\n1 / 0\n")
    assert found.file_hash != registry.load(package).file_hash
    assert "ZeroDivisionError" in (registry.load(package).error or "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "import failed: it defines no FORMULATION"),
        ("class F: pass\nFORMULATION = F", "expected an instance: FORMULATION = F()"),
        (
            "class F:\n    card = None\nFORMULATION = F()",
            "FORMULATION lacks handles, Options, restricts, unsupported, build, scale, decode, "
            "encode; add `handles = PlanningProblem` and `def restricts(self, options):",
        ),
    ],
)
def test_a_broken_file_is_listed_and_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    (tmp_path / "resource_load.py").write_text("raise RuntimeError('second of its name')")
    monkeypatch.setattr(registry, "shipped_folders", lambda: (SHIPPED, tmp_path))
    found = registry.discover()
    assert isinstance(found["broken"].formulation, Isolated)
    assert error in (found["broken"].error or "")
    first = found["resource_load"].formulation
    assert first is not None
    assert not isinstance(first, Isolated), "the first of a name wins"
    with pytest.raises(FormulationError, match=r"broken.*broken\.py"):
        registry.get("broken")


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        SimpleNamespace(name="elsewhere", value="formulations.resource_load:FORMULATION"),
        SimpleNamespace(name="bad", value="no_such_module:FORMULATION"),
        SimpleNamespace(name="odd", value="math:pi"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "shipped_folders", lambda: ())
    found = registry.discover()
    assert found.keys() == {"resource_load", "bad", "odd"}
    assert found["resource_load"].file_hash is None
    assert isinstance(found["resource_load"].formulation, Isolated)
    assert found["bad"].error == (
        "formulation 'bad' (no_such_module:FORMULATION): import raised ModuleNotFoundError: "
        "No module named 'no_such_module'"
    )
    assert "lacks card" in (found["odd"].error or "")


def test_shipped_formulations_refuse_what_they_cannot_do() -> None:
    schedule, load = (
        registry.get(name).formulation for name in ("operator_schedule", "resource_load")
    )
    assert schedule is not None
    assert load is not None
    bottleneck, makespan = (planted(0, goal) for goal in (Objective.BOTTLENECK, Objective.MAKESPAN))
    serial = planted_serial(0)[0]
    assert "serial law" in (schedule.unsupported(serial, schedule.Options()) or "")
    assert schedule.unsupported(bottleneck, schedule.Options()) is None
    assert schedule.unsupported(makespan, schedule.Options()) is None
    assert "not bottleneck" in (load.unsupported(makespan, load.Options()) or "")
    assert load.unsupported(bottleneck, load.Options()) is None
    assert Guide() == Guide(memory=True)


def test_a_guide_keeps_what_it_has_asked_for_and_takes_nothing_along() -> None:
    problem = planted(0, Objective.BOTTLENECK)
    form = registry.get("resource_load").formulation
    assert form is not None
    guide, options = Guide(cutoff=10**6), form.Options()
    first = form.build(problem, options, guide).builder
    assert guide.keep(type(first), problem, options) is first
    assert form.build(problem, options, Guide()).builder is not first
    assert pickle.loads(pickle.dumps(guide)) == guide
    assert not pickle.loads(pickle.dumps(guide))._made
