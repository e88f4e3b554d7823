"""``pipeline``: arguments, answers, files, the front of several cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.io.plan_file import read_plan
from milp_plan.kinds.schedule.formats import read

from .cases import call

TINY = ("--stages", "2", "--micro-batches", "3", "--time-limit", "20", "--quiet")


def plan(tmp_path: Path, *arguments: object) -> Any:
    return call("pipeline", *TINY, "--record-folder", tmp_path / "runs", *arguments)


def answer(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    result = plan(tmp_path, "--json", *arguments)
    assert result.exit_code == Exit.DONE, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def answer_of(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    """The answer, whatever the exit code."""
    found: dict[str, Any] = json.loads(plan(tmp_path, "--json", *arguments).stdout)
    return found


def test_one_case_as_json(tmp_path: Path) -> None:
    found = answer(tmp_path, "--memory", "2", "--times", "1,2,0.5", "--transfer", "1/4")
    assert found["placement"] == "line"
    assert found["memory_limit"] == 2
    assert found["time"] == found["makespan"] >= found["time_bound"]
    assert found["bubble"] == found["time"] - 3 * 3.5
    assert found["peak_memory"] <= 2
    assert found["verdict"] == "ok"
    assert found["proved"]
    assert found["exit_code"] == 0


def test_the_plan_it_writes_passes_the_check(tmp_path: Path) -> None:
    written = {"--plan-output": tmp_path / "plan.json", "--instance-output": tmp_path / "case.json"}
    written["--plot"] = tmp_path / "timeline.svg"
    result = plan(tmp_path, *(entry for pair in written.items() for entry in pair))
    assert result.exit_code == Exit.DONE, result.stderr
    assert "line, 2 devices, 3 micro-batches, no memory limit: makespan" in result.stdout
    verdict = verify(read(written["--instance-output"]), read_plan(written["--plan-output"]))
    assert verdict.ok
    assert written["--plot"].read_bytes().startswith(b"<?xml")


def test_span_and_makespan_are_kept_apart(tmp_path: Path) -> None:
    found = answer(tmp_path, "--objective", "span")
    assert found["objective"] == "span"
    assert found["time"] == found["span"] <= found["makespan"]


@pytest.mark.untraced
def test_all_placements_and_memories_give_a_front(tmp_path: Path) -> None:
    picture = tmp_path / "front.png"
    arguments = ("--placement", "all", "--memory", "2,none", "--plot", picture)
    arguments += ("--time-limit", 3)  # no proof is asked for
    result = plan(tmp_path, "--json", *arguments)
    assert result.exit_code == Exit.DONE, result.stderr
    *rows, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["placement"] for row in rows} == {"line", "interleaved", "v", "wave", "dualpipe"}
    assert [row["memory_limit"] for row in rows] == [2, None] * 5
    names = {row["instance"]: row for row in rows}
    best = [names[name] for name in last["front"]]
    assert best == sorted(best, key=lambda row: row["peak_memory"])
    for row in rows:
        better = [b for b in best if b["peak_memory"] <= row["peak_memory"]]
        assert min(b["time"] for b in better) <= row["time"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_more_memory_is_never_worse(tmp_path: Path) -> None:
    result = plan(tmp_path, "--memory", "1,3,2")
    assert result.exit_code == Exit.DONE, result.stderr
    assert "memory limit" in result.stdout
    result = plan(tmp_path, "--memory", "1,3,2", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()][:-1]
    assert [row["memory_limit"] for row in rows] == [1, 2, 3]
    assert rows[0]["time"] >= rows[1]["time"] >= rows[2]["time"]


@pytest.mark.untraced
def test_activations_may_leave_to_the_host(tmp_path: Path) -> None:
    stay = answer(tmp_path, "--memory", "1")
    leave = answer(tmp_path, "--memory", "1", "--lane", "1/2")
    assert leave["proved"]
    assert leave["time"] < stay["time"]
    assert leave["peak_memory"] <= 1  # hosts have no limit, and do not count


@pytest.mark.untraced
def test_forward_passes_may_run_again(tmp_path: Path) -> None:
    stay = answer(tmp_path, "--memory", "1")
    again = answer(tmp_path, "--memory", "1", "--recompute")
    both = answer(tmp_path, "--memory", "1", "--recompute", "--lane", "1/2")
    assert both["time"] <= again["time"] < stay["time"]
    assert max(again["peak_memory"], both["peak_memory"]) <= 1


def test_free_stages_choose_their_devices(tmp_path: Path) -> None:
    found = answer(tmp_path, "--micro-batches", "1", "--placement", "free")
    assert found["proved"]
    assert found["time"] == 5  # on two devices, so that weight gradients run beside the rest


def test_smaller_micro_batches_of_a_fixed_batch(tmp_path: Path) -> None:
    arguments = ("--micro-batches", "2,4", "--fixed-batch", "--json")
    result = plan(tmp_path, *arguments)
    assert result.exit_code == Exit.DONE, result.stderr
    two, four, _ = (json.loads(line) for line in result.stdout.splitlines())
    assert two["time"] - two["bubble"] == four["time"] - four["bubble"] == 6
    assert four["bubble"] < two["bubble"]


def test_a_model_from_a_file(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text(
        'time_unit = "ms"\ntransfer = 1\n'
        "[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nheld_to_weight = 1\nrepeat = 3\n"
        "[[pieces]]\nforward = 4\nbackward = 4\nweight = 1\nheld_to_weight = 2\n"
    )
    found = answer(tmp_path, "--times", model, "--memory", "9")
    assert found["time"] - found["bubble"] == 27  # three pieces on one device, one on the other
    assert found["proved"]
    assert found["cut"] == [3, 1]
    assert found["cuts"]["all_decided"]
    assert "the cut into stages (all 3 decided)" in found["scope"]


MEMCUT = (
    'time_unit = "ms"\nsize_unit = "GiB"\n'
    "[[pieces]]\nrepeat = 2\nforward = 1\nbackward = 1\nweight = 1\nheld_to_weight = 0.5\n"
    "parameters = 1\n"
    "[[pieces]]\nrepeat = 2\nforward = 1\nbackward = 1\nweight = 1\nheld_to_weight = 0.5\n"
    "parameters = 6\n"
)
"""Pieces whose most even cut does not fit, while another does."""


def test_the_cut_that_fits_is_found(tmp_path: Path) -> None:
    """A cut chosen by time alone ended in 'no plan exists'."""
    model = tmp_path / "model.toml"
    model.write_text(MEMCUT)
    found = answer(tmp_path, "--times", model, "--memory", "11", "--micro-batches", "4")
    assert found["cut"] == [3, 1]
    assert found["time"] == found["time_bound"] == 36
    assert found["proved"]


def test_a_pipeline_file_may_name_the_memory_of_a_device(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text(f"memory = 11\n{MEMCUT}")
    found = answer(tmp_path, "--times", model, "--micro-batches", "4")
    assert found["memory_limit"] == 11
    assert found["cut"] == [3, 1]
    assert "memory limit of the file" in found["scope"]


def test_no_plan_exists_is_reported_for_every_cut_alone(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text(MEMCUT)
    result = plan(tmp_path, "--times", model, "--memory", "11", "--cut", "2,2")
    assert result.exit_code == Exit.INFEASIBLE
    assert "no plan with the cut 2 | 2: a device needs at least 13 GiB" in result.stdout
    assert "no plan exists" not in result.stdout
    result = plan(tmp_path, "--times", model, "--memory", "9")
    assert result.exit_code == Exit.INFEASIBLE
    assert "no plan exists: none of the 3 cuts of 4 pieces into 2 stages fits" in result.stdout
    assert "no recomputation (--recompute), no host (--lane TIME)" in result.stdout
    record = answer_of(tmp_path, "--times", model, "--memory", "9")
    assert record["cuts"]["all_decided"]


def test_a_table_shows_no_cut_where_none_has_a_plan(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text(MEMCUT)
    result = plan(tmp_path, "--times", model, "--memory", "9,11")
    assert result.exit_code == Exit.INFEASIBLE
    none, found = (line for line in result.stdout.splitlines() if line.startswith(" line"))
    assert "none exists" in none
    assert "|" not in none
    assert "3 | 1" in found


@pytest.mark.parametrize("family", ["line", "v", "free"])
def test_the_scope_names_placement_and_limit_as_they_are(tmp_path: Path, family: str) -> None:
    model = tmp_path / "model.toml"
    model.write_text(MEMCUT)
    scope = answer_of(tmp_path, "--times", model, "--placement", family)["scope"]
    decided, fixed = scope.split("; ")[:2]
    assert "no memory limit (--memory)" in fixed
    assert ("placement" in decided) == (family == "free")
    assert (f"placement {family}" in fixed) == (family != "free")
    assert not fixed.endswith(f", {family}")


def test_time_that_does_not_suffice_for_every_cut_is_reported(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text(
        "transfer = 1\n"
        + "".join(
            f"[[pieces]]\nforward = {n % 5 + 2}\nbackward = {n % 7 + 3}\nweight = {n % 3 + 1}\n"
            f"held_to_weight = {n % 4 + 1}\n"
            for n in range(40)
        )
    )
    arguments = ("--stages", "4", "--micro-batches", "9", "--memory", "60", "--time-limit", "1")
    found = answer_of(tmp_path, "--times", model, *arguments)
    assert found["cuts"]["possible"] == 9139
    assert not found["proved"]
    assert not found["cuts"]["all_decided"]
    assert "of 9,139 inspected, not all decided" in found["scope"]
    assert found["time_bound"] < found["time"]


def test_a_cut_is_set_shown_and_kept(tmp_path: Path) -> None:
    """No output showed which pieces went where."""
    model = tmp_path / "model.toml"
    model.write_text(
        "[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nrepeat = 3\n"
        '[[pieces]]\nname = "head"\nforward = 1\nbackward = 1\nweight = 1\n'
    )
    instance, planned = tmp_path / "i.json", tmp_path / "p.json"
    files = ("--instance-output", instance, "--plan-output", planned)
    result = plan(tmp_path, "--times", model, "--cut", "3,1", *files)
    assert result.exit_code == Exit.DONE, result.stderr
    shown = ["cut        3 | 1", "stage 0    pieces 0-2 on d0", "stage 1    piece 3 (head) on d1"]
    assert all(line in result.stdout for line in shown)
    found = answer(tmp_path, "--times", model, "--cut", "3,1")
    assert found["cut"] == [3, 1]
    assert found["layers"][1] == {
        "stage": 1,
        "devices": ["d1"],
        "first_piece": 3,
        "pieces": 1,
        "names": ["head"],
    }
    reported = call("info", instance).stdout
    assert "3 | 1" in reported
    assert "piece 3 (head) on d1" in reported
    assert "stage 1: piece 3 (head) on d1" in call("explain", instance, planned).stdout


@pytest.mark.parametrize("verb", ["info", "check", "explain"])
def test_a_written_instance_says_that_its_cut_is_fixed(tmp_path: Path, verb: str) -> None:
    model, instance, made = (tmp_path / name for name in ("model.toml", "i.json", "p.json"))
    model.write_text(MEMCUT)
    limit = ("--times", model, "--memory", "11")
    result = plan(tmp_path, *limit, "--instance-output", instance, "--plan-output", made)
    assert "order and the cut into stages (all 3 decided); fixed: placement line" in result.stdout
    assert "fixed: the cut" not in result.stdout
    plans = () if verb == "info" else (made,)
    assert "order; fixed: placement, the cut 3 | 1;" in call(verb, instance, *plans).stdout


def test_no_cut_is_reported_where_a_model_has_no_pieces(tmp_path: Path) -> None:
    found = answer(tmp_path)
    assert found["cut"] is None
    assert found["layers"] == []


def test_a_cut_that_does_not_fit_is_refused_by_its_option(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text("[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nrepeat = 4\n")
    for given, found in (("3,2", "2 stages with 5 pieces"), ("2,1,1", "3 stages with 4 pieces")):
        result = plan(tmp_path, "--times", model, "--cut", given)
        assert result.exit_code == Exit.BAD_INPUT
        assert f"--cut: found {given.replace(',', ', ')}: {found}" in result.stderr
        assert "expected 2 stages (line, 2 devices) with 4 pieces in all" in result.stderr
    result = plan(tmp_path, "--times", model, "--cut", "3,1", "--placement", "all")
    assert result.exit_code == Exit.BAD_INPUT
    refused = [line for line in result.stderr.splitlines() if "--cut" in line]
    assert len(refused) > 1
    assert all("found 3, 1: 2 stages with 4 pieces, expected" in line for line in refused)
    result = plan(tmp_path, "--cut", "1,1")
    assert result.exit_code == Exit.BAD_INPUT
    assert "expected a file with pieces (--times FILE)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--times", "1,2"), Exit.USAGE, "expected F,B,W"),
        (("--times", "1,x,2"), Exit.USAGE, "'x' is no amount"),
        (("--memory", "-1"), Exit.USAGE, "negative"),
        (("--micro-batches", "0"), Exit.USAGE, "positive integers"),
        (("--plot", "x.pdf"), Exit.USAGE, ".png or .svg"),
        (("--memory", "1,2", "--plan-output", "p.json"), Exit.USAGE, "one case, found 2"),
        (("--times", "absent.toml"), Exit.BAD_INPUT, "no such file"),
        (("--placement", "wave", "--chunks", "0"), Exit.USAGE, "--chunks"),
        (("--memory", "1/2"), Exit.INFEASIBLE, ""),
    ],
)
def test_bad_arguments(
    arguments: tuple[str, ...], code: Exit, message: str, tmp_path: Path
) -> None:
    result = plan(tmp_path, *arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_a_model_with_too_few_pieces_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    model.write_text("[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nrepeat = 3\n")
    result = plan(tmp_path, "--times", model, "--placement", "v")
    assert result.exit_code == Exit.BAD_INPUT
    assert "3 pieces cannot be cut into 4 stages" in result.stderr


def test_of_several_cases_each_without_a_plan_says_why(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    piece = "[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nparameters = {}\n"
    model.write_text("".join(piece.format(bytes) for bytes in (1, 1, 6, 6)))
    result = plan(tmp_path, "--times", model, "--memory", "5,12")
    assert result.exit_code == Exit.INFEASIBLE
    because = "line-2x3-memory5: no plan exists: none of the 3 cuts of 4 pieces into 2 stages fits"
    assert because in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.split()[2:3] == ["5"])
    assert row.split()[-1] == "—", "no cut of a case without a plan"


def test_a_transfer_without_a_plan_ends_as_solving_it_does(tmp_path: Path) -> None:
    model, transfer = tmp_path / "model.toml", tmp_path / "transfer.json"
    model.write_text(
        'time_unit = "us"\n[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nrepeat = 2\n'
    )
    problem = {
        "format": "milp-plan-instance",
        "version": 1,
        "name": "wide",
        "cluster": {
            "device_classes": [{"name": "c", "memory_bytes": None}],
            "devices": [{"name": "d", "device_class": "c"}],
        },
        "operators": [
            {"name": "a", "options": [{"name": "o", "gang": 2, "duration_ns": {"c": 5}}]}
        ],
        "values": [],
    }
    transfer.write_text(json.dumps(problem))
    records = ("--record-folder", tmp_path / "runs")
    assert call("solve", transfer, "--quiet", *records).exit_code == Exit.INFEASIBLE
    result = plan(tmp_path, "--times", model, "--transfer", transfer)
    assert result.exit_code == Exit.INFEASIBLE
    assert "wide: no plan exists: operator 'a' can run nowhere" in result.stderr
