"""Studies of the two-stage method, of formulations, and of what a part changes."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.io.study_file import read_study
from milp_plan.models.registry import discover
from tests.cli.cases import call

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"
COMMON = {"threads": 1, "seed": 0}
PEER = {"value": 7, "bound": 7, "check": "ok", "by": "CP-SAT", "wall_s": 1.0}


@pytest.fixture(scope="module")
def script():
    """Import a script of the peers' folder by name."""
    sys.path.insert(0, str(PEERS))
    yield importlib.import_module
    sys.path.remove(str(PEERS))


@pytest.fixture
def page(tmp_path):
    """Write a study's page from rows; return exit code, page and complaints."""

    def write(name, rows):
        members = {"name", "part", "file", "target", "kind", "variant", "limit", *COMMON}
        cases = [{k: v for k, v in row.items() if k in members} for row in rows]
        text = (ROOT / "results" / name / "study.toml").read_text()
        head, _, rest = text.partition("\ncommon = ")
        tables = "[[tables]]" + rest.partition("[[tables]]")[2]
        head = head.replace("benchmarks/peers", str(PEERS))
        listed = ", ".join(map(_inline, cases))
        (tmp_path / "study.toml").write_text(f"{head}\ncases = [{listed}]\n{tables}")
        made = {"versions": {}, "machine": {}, "rows": rows}
        (tmp_path / "table.json").write_text(json.dumps(made))
        result = call("table", tmp_path, "--render")
        assert result.exit_code in (Exit.DONE, Exit.NOT_VALID), result.stderr
        return result.exit_code, (tmp_path / "table.md").read_text(), result.stderr

    return write


def _inline(case):
    def of(entry):
        if isinstance(entry, dict):
            return _inline(entry)
        return json.dumps(entry)

    return "{ " + ", ".join(f"{name} = {of(entry)}" for name, entry in case.items()) + " }"


def cases_of(name):
    """Cases of a committed study."""
    return read_study(ROOT / "results" / name / "study.toml")[0].all_cases()


# -- formulations ---------------------------------------------------------------------------------


def test_every_formulation_that_applies_has_a_row(script, page, monkeypatch, tmp_path):
    coarse, formulations = script("coarse"), script("formulation_table")
    monkeypatch.setattr(coarse.study, "peer", lambda *_: PEER | {"value": None, "bound": None})
    case = {"file": "instances/fan-out-one-send.json", "limit": 20, **COMMON}
    row = formulations.measure(case)
    problem = coarse.study.instance_file(case["file"], tmp_path)
    applicable = dict(coarse.formulations(script("two_stage").read(problem)))
    assert {"flexible_job_shop", "operator_schedule"} <= set(applicable) <= set(discover())
    assert set(row["methods"]) == {*applicable, "enumeration", "clause learning", "CP-SAT"}
    for name in (*applicable, "enumeration"):
        found = row["methods"][name]
        assert found["proved"], name
        assert found["value"] == row["methods"]["enumeration"]["value"]
    for name in applicable:
        found = row["methods"][name]
        assert 0 < found["lp_bound"] <= found["bound"]
        assert found["root_bound"] is None or found["root_bound"] <= found["bound"]
        assert found["columns"] > 0
        assert found["rows"] > 0
    assert row["methods"]["CP-SAT"] is None  # it has no answer
    code, text, _ = page("paper/formulations", [{**case, **row}])
    assert code is Exit.DONE
    assert "| CP-SAT | — | — | — | — | — | — | does not apply | — | — |" in text
    assert (tmp_path / "profile.png").is_file()


def test_a_bound_above_a_plan_of_another_method_is_a_contradiction(script, page):
    def method(value, bound):
        return script("coarse").answer(value, bound, 1.0)

    methods = {"good": method(10, 10), "wrong": method(12, 11), "late": method(None, 9)}
    case = {"file": "f", "limit": 3, "name": "n"}
    row = {**case, "operators": 3, "devices": 2, "binds": False, "methods": methods}
    code, text, stated = page("paper/formulations", [row])
    assert code is Exit.NOT_VALID
    assert stated.count("contradiction") == 1
    assert "n, wrong: its bound is above a plan of another method" in stated
    assert "| good | 1 | 1 | 1 | 1 |" in text
    assert "| wrong | 1 | 1 | 0 | 0 |" in text


def test_a_public_file_that_is_not_there_is_named(script, page, monkeypatch):
    monkeypatch.delenv("MILP_PLAN_BENCHMARKS", raising=False)
    public = [case for case in cases_of("paper/formulations") if "$" in case["file"]]
    assert len(public) == 5
    row = script("formulation_table").measure(public[0])
    assert row["stop"] == "absent"
    code, text, _ = page("paper/formulations", [{**public[0], **row}])
    assert code is Exit.DONE
    assert "0 small problems" in text
    assert "coarse-4-merged.json: MILP_PLAN_BENCHMARKS is not set" in text


# -- two stages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stages", "pairwise", "guided"])
def test_a_coarse_problem_is_solved_and_expanded(script, monkeypatch, kind):
    study, two_stage = script("study"), script("two_stage")
    monkeypatch.setattr(study, "peer", lambda *_: PEER)
    file = "instances/unet-inference-2xH100.json"
    case = {"file": file, "target": 10, "kind": kind, "limit": 3, **COMMON}
    row = two_stage.measure(case)
    exact = row["exact"]
    assert 1 < row["clusters"] < row["operators"]
    assert exact["value"] <= row["start"]
    assert exact["root_bound"] <= exact["bound"] <= exact["value"]
    assert row["expanded"] <= exact["value"]
    assert not row["binds"]


def coarse_row(file, target, kind="stages", **changes):
    """What a case of one coarse problem could give."""
    method = {"seconds": 1.0, "columns": 9, "rows": 9, "nodes": 1, "failure": None, "check": "ok"}
    exact = {**method, "value": 1010, "bound": 1010, "proved": True, "gap": 0.0}
    cpsat = {**method, "value": 1000, "bound": 990, "proved": False, "gap": 0.01}
    about = {"name": file, "operators": 90, "devices": 4, "binds": False, "clusters": target}
    row = {"file": file, "target": target, "kind": kind, "limit": 5, **about, "start": 1200}
    return row | {"exact": exact, "cpsat": cpsat, "expanded": 1005} | changes


def run_row(file, alone, lists):
    """What a case of a whole instance could give."""
    run = {"check": "ok", "wall_s": 5.0}
    about = {"name": file, "operators": 90, "devices": 4, "binds": False}
    row = {"file": file, "part": "runs", "limit": 9, **about, "lists": lists, "bound": 800}
    row["stages"] = [{"clusters": 36}, {"clusters": 60}]
    return row | {"alone": {**run, "value": alone}, "default": {**run, "value": 1000}}


def test_page_of_two_stages(page, tmp_path):
    proved = {"value": 1010, "bound": 1010, "proved": True, "gap": 0.0, "seconds": 1, "check": "ok"}
    rows = [
        run_row("a", 1050, 1100),
        run_row("b", 1200, 1100),
        coarse_row("a", 60, cpsat=proved),
        coarse_row("a", 100, "guided"),
        coarse_row("b", 60, cpsat=None, expanded=None, start=1300)
        | {"exact": coarse_row("b", 60)["exact"] | {"value": None, "bound": None, "proved": False}},
    ]
    _, text, stated = page("paper/two-stage", rows)
    assert "Two stages alone plan 2 of 2 instances" in text
    assert "the median is +12.50% and the worst +20.00%" in text
    assert "list schedule of the whole graph on 1 of 2." in text
    assert "is at or below that list schedule on 1 of 2 instances" in text
    assert "| 36, 60 |" in text
    assert "| 5.00% |" in text
    assert stated.count("contradiction") == 1  # proved 1,010 beside a plan of 1,000
    assert "a, 100 guided: a bound of one method is above a plan of the other" in stated
    assert (tmp_path / "runs.png").is_file()
    assert (tmp_path / "clusters.png").is_file()


def test_page_of_the_exact_stage(page):
    theirs = {"value": 1000, "bound": 1000, "proved": True, "gap": 0.0, "seconds": 1, "check": "ok"}
    open_ = coarse_row("c", 24)["exact"] | {"value": 1011, "bound": 900, "proved": False}
    ours = coarse_row("d", 24)["exact"] | {"value": 1000, "bound": 1000}
    rows = [coarse_row("c", 24, exact=open_, cpsat=theirs)]
    rows += [coarse_row("d", 30, exact=ours, cpsat=theirs, binds=True)]
    code, text, _ = page("paper/coarse-exact", rows)
    assert code is Exit.DONE
    assert "2 coarse problems of 24 to 30 clusters" in text
    assert "memory binds in 1 of them" in text
    assert "proves 2, of which the exact stage proves 1 (50.00%)" in text
    assert "1 % worse than that of CP-SAT on 1 of 2 (50.00%)" in text


def test_what_the_studies_ask_for():
    small = cases_of("paper/coarse-exact")
    assert len(small) >= 20
    assert sum("tight" in case["file"] for case in small) >= len(small) // 2
    assert {case["target"] for case in small} <= set(range(24, 101))
    cases = cases_of("paper/two-stage")
    asked = {(case["target"], case["kind"]) for case in cases if "part" not in case}
    assert len(asked) == 6
    large = [case for case in cases_of("ablation") if case["limit"] == 15]
    assert len({case["seed"] for case in large}) == 5
    assert {"default", "control", "annealing"} <= {case["variant"]["name"] for case in large}


# -- ablation -------------------------------------------------------------------------------------


def ablation_rows(changes):
    """Rows of two instances: values of each variant, seed by seed."""
    return [
        {
            "file": file, "limit": 5, "threads": 1, "seed": seed, "variant": {"name": name},
            "name": file, "operators": 300, "devices": 4, "bound": 1, "check": "ok",
            "wall_s": 5.0, "stop": "time_limit", "value": value, "proved": False,
        }
        for file, variants in changes.items()
        for name, values in variants.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip


def test_only_what_exceeds_the_noise_counts(page, tmp_path):
    steady, loud = [1000, 1001, 1002], [900, 1000, 1100]
    rows = ablation_rows({
        "steady": {"default": steady, "control": steady, "without": [1020, 1021, None]},
        "loud": {"default": loud, "control": loud, "without": [1050, 1020, 1000]},
    })  # fmt: skip
    code, text, _ = page("ablation", rows)
    assert code is Exit.DONE
    assert "| without | 2 | 1 | 0 |" in text, "one of two problems is worse, none better"
    assert "| control | 2 | 0 | 0 | +0.00% |" in text
    (line,) = [line for line in text.splitlines() if "| steady |" in line and "without" in line]
    assert "| +1.95% |" in line
    assert "| 0.0010, 0.0010 | 1 |" in line
    assert (tmp_path / "changes.png").is_file()


def test_noise_of_medians(script):
    noise = script("ablation").noise
    assert noise([5]) == 0.0
    assert noise([10, 10, 10, 10]) == 0.0
    assert noise([10, 20]) == pytest.approx(10 / 15)
    assert 0 < noise([98, 99, 100, 101, 102, 103]) < 0.05


def test_a_variant_changes_options_and_seed(script, monkeypatch):
    asked = {}

    def solve(_file, case, _folder):
        asked.update(case)
        about = dict.fromkeys(("name", "operators", "devices", "bound"))
        return dict.fromkeys(("value", "check", "wall_s", "stop")), about

    monkeypatch.setattr(script("study"), "solve", solve)
    variant = {"name": "x", "options": ["--rounds", "1"], "seed": 1000}
    case = {"file": "instances/unet-inference-2xH100.json", "seed": 3, "variant": variant}
    script("ablation").measure(case)
    assert (asked["seed"], asked["options"]) == (1003, ["--rounds", "1"])
