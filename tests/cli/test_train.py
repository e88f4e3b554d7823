"""``train``: the answer in words and as JSON, plans that come back, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from milp_plan.cli.exits import Exit
from milp_plan.kinds.training import Configuration, search, training_cluster
from milp_plan.kinds.training.api import check, training_problem
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.efficiency import SHIPPED
from milp_plan.kinds.training.memory import MARGIN
from tests.training import measured_rows
from tests.training.test_huggingface import LLAMA3_70B

from .cases import call

ASKED = ("--global-batch", "32", "--sequence", "4096")
ON_EIGHT = ("train", "llama3-8b", "8xH100", *ASKED)


def test_the_answer_says_degrees_figures_proof_and_what_else_there_is() -> None:
    done = call(*ON_EIGHT)
    assert done.exit_code == Exit.DONE, done.stderr
    for words in (
        *("TP ", "PP ", "DP ", "micro-batch", "recompute", "sharded", "TFLOP/s a device", "MFU"),
        *("weights", "activations", "compute", "proved best within the space", "next best"),
        *("rejected", "GB too much", "not considered", "of every device left free", "overlaps"),
        *("error unknown", "costs of H100 assumed, not fitted", "memory of hosts", "(-v: in full)"),
    ):
        assert words in done.stdout


def test_the_error_is_that_of_held_out_rows_of_the_device_class(tmp_path: Path) -> None:
    fixed = ("--fix", "pp=1", "--fix", "mbs=1")
    asked = ("--global-batch", "8", "--sequence", "2048", *fixed)
    known = call("train", "llama3-8b", "8xB200", *asked)
    assert "held-out rows)" in known.stdout
    assert "costs of B200 fitted to measured steps" in known.stdout
    reported = json.loads(call("train", "llama3-8b", "8xB200", *asked, "--json").stdout)
    assert 0 < reported["error_band"]["median_error"] < 0.1
    eight = call("train", "llama3-8b", "8xB200", *asked, "--fix", "precision=fp8", "--json")
    half = json.loads(eight.stdout)
    assert half["error_band"] is None
    rate = half["model_flops"] / (half["value"] / 1e9) / 8
    assert half["best"]["mfu"] == pytest.approx(rate / (2 * 2250e12))
    rows, rates = tmp_path / "rows.csv", tmp_path / "rates.json"
    rows.write_text(measured_rows.text(measured_rows.rows()[:8]))
    assert call("calibrate", rows, "--fit", rates).exit_code == Exit.DONE
    device = next(iter(json.loads(rates.read_text())["software"]["megatron-core"]["fitted"]))
    for wanted in (device, "V100"):
        words = call("train", "llama3-8b", f"8x{wanted}", *asked, "--rates", rates).stdout
        assert ("held-out rows)" in words) is (wanted == device)


def test_the_default_margin_is_what_measured_runs_leave_free() -> None:
    reported = json.loads(call(*ON_EIGHT, "--json").stdout)
    assert reported["reserve_bytes"] == round(MARGIN * 80 * 10**9)
    assert max(reported["best"]["peak_bytes"]) <= 80 * 10**9 - reported["reserve_bytes"]
    none = json.loads(call(*ON_EIGHT, "--json", "--reserve", "0B").stdout)
    assert none["value"] <= reported["value"]


def test_a_plan_comes_back_and_is_checked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    reported = json.loads(call(*ON_EIGHT, "--plan-output", plan, "--json").stdout)
    checked = json.loads(call(*ON_EIGHT, "--check", plan, "--json").stdout)
    assert (checked["valid"], checked["value"]) == (True, reported["value"])
    assert call(*ON_EIGHT, "--plan-output", plan).exit_code == Exit.DONE
    tight = call(*ON_EIGHT, "--memory", "20GB", "--check", plan)
    assert tight.exit_code == Exit.NOT_VALID
    assert "memory" in tight.stdout
    plan.write_text(plan.read_text().replace('"data": 8', '"data": 4'))
    assert "degrees" in call(*ON_EIGHT, "--check", plan).stdout


def test_fixed_fields_less_memory_and_a_reserve_make_steps_longer() -> None:
    free, fixed, tight = (
        json.loads(call(*ON_EIGHT, "--json", *more).stdout)["value"]
        for more in ((), ("--fix", "tp=8"), ("--memory", "50GB", "--reserve", "10GB"))
    )
    assert free < fixed
    assert free < tight


def test_a_file_takes_the_place_of_a_name(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_70B))
    asked = ("--global-batch", "64", "--fix", "tensor=8", "--fix", "pipeline=8", "--json")
    reported = json.loads(call("train", "8x8xH100", "--model-file", config, *asked).stdout)
    named = json.loads(call("train", "llama3-70b", "8x8xH100", *asked).stdout)
    assert reported["value"] == named["value"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("llama3-9b", "8xH100", *ASKED), Exit.BAD_INPUT, "llama3-8b"),
        (("llama3-8b", "8xH900", *ASKED), Exit.BAD_INPUT, "H900"),
        (("llama3-8b", "12xH100", *ASKED), Exit.BAD_INPUT, "whole nodes"),
        (("llama3-8b", *ASKED), Exit.USAGE, "CLUSTER is missing after llama3-8b"),
        (("8xH100", *ASKED), Exit.USAGE, "MODEL is missing before 8xH100"),
        (("config.json", "8xH100", *ASKED), Exit.USAGE, "--model-file config.json"),
        (("rows.csv", "8xH100", *ASKED), Exit.USAGE, "--profile rows.csv"),
        (("a", "b", "c", *ASKED), Exit.USAGE, "expected MODEL and CLUSTER, found a b c"),
        ((*ON_EIGHT[1:], "--phase", "decode"), Exit.USAGE, "for inference use milp-plan serve"),
        ((*ON_EIGHT[1:], "--faze", "decode"), Exit.USAGE, "No such option '--faze'"),
        ((*ON_EIGHT[1:], "--memory", "4"), Exit.USAGE, "4 is 4 bytes; did you mean 4GB?"),
        ((*ON_EIGHT[1:], "--reserve", "4KiB"), Exit.USAGE, "4KiB is 4096 bytes; write for"),
        (("llama3-8b", "8xH100", *ASKED, "--fix", "width=2"), Exit.BAD_INPUT, "width"),
        (("llama3-8b", "8xH100", *ASKED, "--memory", "much"), Exit.USAGE, "80GB"),
        (("llama3-70b", "8xA100-40GB", *ASKED), Exit.INFEASIBLE, ""),
        (
            ("llama3-8b", "8xH100", *ASKED, "--fix", "tp=3"),
            Exit.INFEASIBLE,
            "tensor 3 does not divide 8 devices",
        ),
        (
            ("llama3-8b", "8xTPU-v5e", *ASKED, "--fix", "offload=optimizer"),
            Exit.INFEASIBLE,
            "nothing is known of the hosts of TPU-v5e",
        ),
        (
            ("llama3-8b", "8xA100", *ASKED, "--fix", "precision=fp8"),
            Exit.INFEASIBLE,
            "A100 has no 8-bit floats",
        ),
        (
            ("llama3-8b", "8xH100", *ASKED, "--fix", "pp=4", "--fix", "layers=7,8,8,8"),
            Exit.INFEASIBLE,
            "layers sum to 31, the model has 32 blocks",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_or_reported(
    words: tuple[str, ...], code: Exit, message: str
) -> None:
    done = call("train", *words)
    assert done.exit_code == code
    assert message in done.stderr + done.stdout


def test_a_model_with_experts_says_which_rates_are_fitted_and_v_says_all_that_is_left_out() -> None:
    fixed = ("--fix", "pp=1", "--fix", "tp=8", "--fix", "mbs=1")
    done = call("train", "mixtral-8x7b", "2x8xH100", *ASKED, *fixed, "-v")
    assert "H100 assumed (only products of experts fitted, to measured steps of" in done.stdout
    assert (
        "8-bit products; activations or the optimizer's state in the memory of hosts" in done.stdout
    )
    assert "other than tensor" in done.stdout.replace("pipeline 1, ", "")


def test_the_step_of_an_export_names_the_framework_of_its_rates() -> None:
    other = call(*ON_EIGHT, "--framework", "nanotron").stdout
    assert "steps are predicted by rates of megatron-core, none is fitted to nanotron" in other
    for name in ("megatron", "torchtitan"):
        assert "steps are predicted" not in call(*ON_EIGHT, "--framework", name).stdout


def test_fsdp_on_devices_where_it_was_measured_has_rates_of_its_own(tmp_path: Path) -> None:
    """Also after the job was written: a file without rates means the usual ones."""
    job = tmp_path / "job.json"
    done = call(*ON_EIGHT, "--framework", "fsdp2", "--fix", "tp=1", "--job-output", job)
    assert "fitted to measured steps of llm-foundry" in done.stdout
    assert "held-out rows" in done.stdout
    assert json.loads(job.read_text()).get("rates") is None
    assert "llm-foundry" in call("info", job).stdout


def test_capitals_of_a_device_class_do_not_matter() -> None:
    small, usual = (call("train", "llama3-8b", name, *ASKED) for name in ("8xh100", "8xH100"))
    assert small.stdout == usual.stdout
    mixed = training_cluster("8xa100-80gb+8xv100")
    assert mixed.name == "8xA100-80GB+8xV100"
    assert [group.device.name for group in mixed.groups] == ["A100", "V100"]
    near = call("train", "llama3-8b", "8xH1000", *ASKED)
    assert "did you mean H100?" in near.stderr


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("graph.json", '{"format": "milp-plan-instance"}', "found milp-plan-instance"),
        ("some.json", '{"a": 1}', "found something else"),
        ("some.txt", "hello", "found something else"),
        (
            "zero.json",
            '{"zero_optimization": {}, "train_micro_batch_size_per_gpu": 1}',
            "found an export to deepspeed",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_those_that_can_be_checked(
    tmp_path: Path, name: str, content: str, found: str
) -> None:
    (tmp_path / name).write_text(content)
    done = call(*ON_EIGHT, "--check", tmp_path / name)
    assert done.exit_code == Exit.BAD_INPUT
    for words in (found, "train --plan-output", "arguments of Megatron-LM", "TOML file"):
        assert words in done.stderr


def test_the_same_peak_has_the_same_unit_in_train_and_explain(tmp_path: Path) -> None:
    job, plan = tmp_path / "job.json", tmp_path / "plan.json"
    done = call(*ON_EIGHT, "--job-output", job, "--plan-output", plan)
    peak = re.search(r"peak ([0-9.]+ GB) of ([0-9.]+ GB)", done.stdout)
    assert peak is not None
    explained = re.search(
        r"memory of H100 ([0-9.]+) GB of ([0-9.]+ GB)", call("explain", job, plan).stdout
    )
    assert explained is not None
    assert f"{float(explained[1]):.1f} GB" == peak[1]
    assert explained[2] == peak[2]


def test_bounds_count_only_the_blocks_that_are_computed_again() -> None:
    fixed = ("--fix", "recompute=full", "--fix", "recomputed=1", "--fix", "zero=1")
    reported = json.loads(call(*ON_EIGHT, *fixed, "--reserve", "0B", "--json").stdout)
    assert reported["proved"]
    free = json.loads(call(*ON_EIGHT, *fixed[4:], "--reserve", "0B", "--json").stdout)
    assert free["value"] <= reported["value"] < 1.2 * free["value"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fix", "dp=two"), "--fix data: found 'two', expected a whole number from 1"),
        (("--fix", "zero=-1"), "--fix zero: found -1, expected a whole number from 0"),
        (("--fix", "schedule=foo"), "found 'foo', expected one of gpipe, 1f1b"),
        (("--fix", "layers=a,b"), "expected whole numbers from 0, joined by commas"),
        (("--fix", "dp=2", "--fix", "data=4"), "--fix data: found 2 and 4, expected one value"),
        (("--memory", "1e400GB"), "memory_bytes: found more than 10^30 bytes, expected 1 to"),
        (("--memory", "0GB"), "memory_bytes: found 0 bytes, expected 1 to"),
        (("--sequence", "9" * 400), "sequence: found 9"),
        (("--global-batch", "1000000007"), "global_batch: found 1,000,000,007, expected at most"),
    ],
)
def test_values_that_no_plan_can_have_are_one_clear_error(
    words: tuple[str, ...], message: str
) -> None:
    done = call("train", "llama3-8b", "8xH100", "--global-batch", "8", *words)
    assert done.exit_code == Exit.BAD_INPUT
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_batch_that_fits_no_degree_is_no_fault_of_fixed_fields() -> None:
    done = call("train", "llama3-8b", "64x7xH100", "--global-batch", "1", "--sequence", "4096")
    assert done.exit_code == Exit.INFEASIBLE
    assert "no configuration can run: no degrees" in done.stdout


def test_rates_of_no_framework_are_not_said_to_be_no_object(tmp_path: Path) -> None:
    rates = tmp_path / "rates.json"
    rates.write_text(json.dumps(json.loads(SHIPPED.read_text()) | {"software": {}}))
    done = call(*ON_EIGHT, "--rates", rates)
    assert done.exit_code == Exit.BAD_INPUT
    assert "software: found {}, expected an object, not empty" in done.stderr


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("launch_ns",), -1, "launch_ns: found -1, expected a number of at least 0"),
        (("launch_ns",), float("nan"), "NaN"),
        (("devices", "H100", "matrix"), 0, "matrix: found 0, expected a number above 0"),
        (("devices", "H100", "network"), -0.5, "network: found -0.5"),
        (("devices", "H100"), 5, "devices.H100: found 5, expected an object"),
        (("fused_attention",), "yes", "fused_attention: found"),
        (("overlap",), 5, "overlap: found 5, expected a number of at least 0 and at most 1"),
        (("band",), None, "band: found null"),
        (("launch",), 1, "launch"),
    ],
)
def test_rates_with_a_wrong_member_name_it(
    tmp_path: Path, path: tuple[str, ...], value: object, message: str
) -> None:
    document = json.loads(SHIPPED.read_text())
    at = document["software"]["megatron-core"]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    rates = tmp_path / "rates.json"
    rates.write_text(json.dumps(document))
    done = call(*ON_EIGHT, "--rates", rates)
    assert done.exit_code == Exit.BAD_INPUT
    assert "rates.json" in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("owner", "when", "number"),
    [
        (PlanCosts, "least_ns", 60),
        (PlanCosts, "evenly_ns", 60),
        (PlanCosts, "priced", 60),
        (search, "derive", 2),
    ],
)
def test_an_interruption_keeps_the_best_plan_and_a_bound_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, when: str, number: int
) -> None:
    best = json.loads(call(*ON_EIGHT, "--json").stdout)["value"]
    usual, calls = getattr(owner, when), []

    def interrupted(*given: object) -> object:
        calls.append(given)
        if len(calls) == number:
            raise KeyboardInterrupt
        return usual(*given)

    monkeypatch.setattr(owner, when, interrupted)
    plan = tmp_path / "plan.json"
    done = call(*ON_EIGHT, "--json", "--plan-output", plan)
    assert done.exit_code == Exit.INTERRUPTED
    reported = json.loads(done.stdout)
    assert not reported["finished"]
    assert (reported["best"] is not None) == plan.exists() == (when == "derive")
    if reported["best"] is not None:
        assert reported["bound"] <= best <= reported["value"]
        assert reported["proved"] == (reported["bound"] == reported["value"])
    else:
        assert not reported["proved"]


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("profile", "{},kind\n{row},x\n", "column kind: found 2 times"),
        ("profile", "{}\n{row},9\n", "row 2: found 7 fields, expected at most 6"),
        ("profile", "{}\na,b,1e300,2,1,1\n", "row 2, forward_ms: found '1e300', expected at most"),
        ("profile", "{}\na,b,1,2,1,%s\n" % ("9" * 400), "...', expected a number from 0"),
        ("calibrate", "layers,layers\n1,2\n", "column layers: found 2 times"),
        ("calibrate", "layers,hidden\n1,2,3\n", "row 2: found 3 fields, expected at most 2"),
        (
            "calibrate",
            "layers,hidden,heads,seq,gpu,gpus\n100000000,64,4,64,H100,1\n",
            "row 2, layers: found '100000000', expected at most 10,000",
        ),
    ],
)
def test_csv_files_with_a_wrong_row_name_it(
    tmp_path: Path, verb: str, text: str, message: str
) -> None:
    header = "name,kind,forward_ms,backward_ms,activation_bytes,parameters"
    file = tmp_path / "rows.csv"
    file.write_text(text.replace("{}", header).replace("{row}", "a,b,1,2,1,1"))
    words = ("train", "8xH100", "--global-batch", "8", "--profile")
    done = call(*(words if verb == "profile" else ("calibrate",)), file)
    assert done.exit_code == Exit.BAD_INPUT
    assert "rows.csv" in done.stderr
    assert message in done.stderr
    assert len(done.stderr) < 400


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("num_hidden_layers", 10**9, "num_hidden_layers: found 1000000000, expected at most"),
        ("hidden_size", 10**400, "hidden_size: found 1000"),
        ("num_key_value_heads", 3, "num_key_value_heads: found 3, expected a divisor of"),
    ],
)
def test_a_config_file_with_a_wrong_member_names_it(
    tmp_path: Path, member: str, value: object, message: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_70B | {member: value}))
    done = call("train", "8xH100", "--model-file", config, *ASKED)
    assert done.exit_code == Exit.BAD_INPUT
    assert message in done.stderr


def test_where_nothing_fits_the_answer_says_which_memory_is_enough() -> None:
    fixed = ("--fix", "pp=1", "--fix", "mbs=1")
    for reserve in ((), ("--reserve", "0B")):
        done = call(*ON_EIGHT, "--memory", "10GB", *reserve, *fixed)
        assert done.exit_code == Exit.INFEASIBLE
        enough = re.search(r"enough +--memory ([0-9.]+)GB: a plan of ([0-9.]+) s", done.stdout)
        assert enough is not None
        there = call(*ON_EIGHT, "--memory", f"{enough[1]}GB", *reserve, *fixed, "--json")
        assert json.loads(there.stdout)["value"] / 1e9 <= float(enough[2]) + 0.1
        less = f"{float(enough[1]) - 0.2:.1f}GB"
        assert call(*ON_EIGHT, "--memory", less, *reserve, *fixed).exit_code == Exit.INFEASIBLE


def test_what_is_rejected_is_faster_and_lacks_what_is_reported() -> None:
    """Each is replayed again, on devices with enough memory for it."""
    reported = json.loads(call(*ON_EIGHT, "--json").stdout)
    assert reported["rejected"]
    of = training_problem("llama3-8b", "8xH100", global_batch=32, sequence=4096)
    for miss in reported["rejected"]:
        configuration = msgspec.convert(miss["configuration"], Configuration)
        verdict = check(of, configuration)
        assert verdict.value == miss["step_ns"] < reported["value"]
        lacking = [v.needed - v.available for v in verdict.violations if v.rule == "memory"]
        assert max(lacking) == miss["excess_bytes"]


def test_a_million_micro_batches_end_with_the_time_limit() -> None:
    fixed = ("--fix", "pipeline=8", "--fix", "micro_batch=1", "--time-limit", "1")
    done = call("train", "llama3-8b", "8xH100", "--global-batch", "1000000", *fixed)
    assert done.exit_code == Exit.NO_PLAN
    assert "no configuration in time" in done.stdout
