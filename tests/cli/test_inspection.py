"""``info``, ``bound``, ``list``, ``show-versions``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from milp_plan.cli import listing, versions
from milp_plan.cli.exits import Exit
from milp_plan.cli.listing import LISTS
from milp_plan.core import Units
from tests.report.plans import chain, two_devices

from .cases import INSTANCES, call, instance_file


def test_info_in_words(tmp_path: Path) -> None:
    result = call("info", instance_file(tmp_path))
    assert result.exit_code == Exit.DONE
    assert "1 forward" not in result.stdout
    assert "3 (2 forward, 1 backward-input)" in result.stdout
    assert "2 made, 1 persistent" in result.stdout
    assert "2 x gpu (4 MiB each)" in result.stdout
    assert "9 µs at every operator's fastest" in result.stdout


def test_info_as_json(tmp_path: Path) -> None:
    problem = replace(two_devices(), provenance={"source": "by hand"})
    first, second = instance_file(tmp_path, problem), instance_file(tmp_path, chain(3)[0])
    result = call("info", first, second, "--json")
    reported, other = (json.loads(line) for line in result.stdout.splitlines())
    assert reported["about"]["operators"] == 3
    assert reported["facts"]["edges"] == 3
    assert reported["facts"]["depth"] == 3
    assert reported["facts"]["work_ticks"] == 9_000
    assert reported["facts"]["persistent_bytes"] == 2**20
    assert reported["facts"]["made_bytes"] == 3 * 2**20
    assert reported["facts"]["options_per_operator"] == {"least": 1, "most": 1}
    assert reported["facts"]["cluster"][1] == {
        "name": "d1",
        "device_class": "gpu",
        "memory_bytes": 4 * 2**20,
    }
    assert reported["facts"]["provenance"] == {"source": "by hand"}
    assert reported["fingerprint"] == problem.fingerprint
    assert other["instance"] == "chain"
    assert other["facts"]["cluster"][0]["memory_bytes"] is None


def test_info_of_several_options_and_no_limit() -> None:
    result = call("info", INSTANCES / "gang-beats-single.json")
    assert "no memory limit" in result.stdout
    assert "from: lesson" in result.stdout
    several = call("info", INSTANCES / "gpt-tiny-tensor-2xA100.json")
    assert "3 to 4" in several.stdout


def test_info_without_units(tmp_path: Path) -> None:
    units = Units("unspecified", "bytes", 10)
    result = call("info", instance_file(tmp_path, two_devices(units=units)))
    assert "900 (unit unspecified) at every operator's fastest" in result.stdout


@pytest.mark.parametrize("verb", ["info", "bound"])
def test_good_files_are_shown_next_to_bad_ones(verb: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"format": "milp-plan-instance", "version": 1, "name": "x"')
    quiet = ("--quiet",) if verb == "bound" else ()
    result = call(verb, broken, tmp_path / "none.json", instance_file(tmp_path), *quiet)
    assert result.exit_code == Exit.BAD_INPUT
    assert "two-devices" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"error: {broken}: ")
    assert lines[-1].startswith(f"error: {tmp_path / 'none.json'}: ")


def test_bounds_best_first(tmp_path: Path) -> None:
    instance = instance_file(tmp_path)
    result = call("bound", instance)
    assert result.exit_code == Exit.DONE
    assert result.stdout.startswith("two-devices: makespan at least 9 µs by ")
    reported = json.loads(call("bound", instance, "--json").stdout)
    assert reported["bound"] == 9_000
    values = [entry["value"] for entry in reported["bounds"]]
    assert values == sorted(values, reverse=True)
    assert reported["bounds"][0]["name"] == reported["bound_name"]
    assert reported["infeasible_because"] is None


def test_the_best_bound_is_what_a_run_would_prove() -> None:
    """The first bounds of the kind say 30; a search over placements and orders proves 40."""
    instance = INSTANCES / "two-sends-one-port.json"
    reported = json.loads(call("bound", instance, "--json", "--quiet", "--time-limit", "60").stdout)
    assert reported["bound"] == 40
    assert reported["bound_name"] in {"clause learning", "enumeration", "every plan"}
    assert {30, 40} <= {entry["value"] for entry in reported["bounds"]}


def test_bound_of_an_infeasible_problem(tmp_path: Path) -> None:
    arguments = ("bound", instance_file(tmp_path), "--memory-scale", "1/4")
    result = call(*arguments)
    assert result.exit_code == Exit.INFEASIBLE
    assert result.stdout.startswith("two-devices: no plan exists: ")
    reported = json.loads(call(*arguments, "--json").stdout)
    assert reported["bound"] is None
    assert reported["bounds"] == []
    assert reported["infeasible_because"]


@pytest.mark.parametrize("kind", LISTS)
def test_lists(kind: str) -> None:
    rows = json.loads(call("list", kind, "--json").stdout)[kind]
    assert rows
    result = call("list", kind)
    assert result.exit_code == Exit.DONE
    for row in rows:
        assert row["name"] in result.stdout


def test_list_of_everything() -> None:
    reported = json.loads(call("list", "--json").stdout)
    assert list(reported) == list(LISTS)
    exact = {row["name"]: row["exact"] for row in reported["formulations"]}
    assert exact["operator_schedule"] is True
    switches = {row["name"]: row["options"] for row in reported["formulations"]}
    symmetry = next(entry for entry in switches["operator_schedule"] if entry["name"] == "symmetry")
    assert symmetry["default"] is True
    assert symmetry["help"] in call("list", "formulations").stdout
    formats = {row["name"] for row in reported["formats"]}
    assert formats >= {"native", "dnn-partitioning", "iopddl", "piper"}
    text = call("list").stdout
    for kind in LISTS:
        assert f"\n{kind}\n" in f"\n{text}"


def test_a_formulation_that_does_not_load_is_listed_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from milp_plan.models import registry

    (tmp_path / "bad.py").write_text("import no_such_module\n")
    monkeypatch.setattr(registry, "shipped_folders", lambda: (tmp_path,))
    monkeypatch.chdir(tmp_path)
    (row,) = json.loads(call("list", "formulations", "--json").stdout)["formulations"]
    assert row["file"] == "bad.py"
    assert row["name"] == "bad"
    assert "no_such_module" in row["error"]
    assert row["exact"] is None
    assert "no_such_module" in call("list", "formulations").stdout


def test_options_of_any_kind_are_listed() -> None:
    @dataclass(frozen=True)
    class Options:
        needed: int
        many: list[int] = field(default_factory=lambda: [1], metadata={"help": "some"})

    assert listing._options(SimpleNamespace(Options=Options)) == [
        {"name": "needed", "default": None, "help": ""},
        {"name": "many", "default": [1], "help": "some"},
    ]
    assert listing._options(SimpleNamespace(Options=int)) == []


def test_list_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LISTS, "formats", list)
    assert call("list", "formats").stdout == "formats: none\n"


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PACKAGES", ("pyomo", "no-such-package"))
    reported = json.loads(call("show-versions", "--json").stdout)
    assert reported["pyomo"]
    assert reported["no-such-package"] is None
    assert list(reported)[:3] == ["milp_plan", "python", "system"]
    assert "not installed" in call("show-versions").stdout
