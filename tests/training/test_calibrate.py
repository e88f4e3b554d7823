"""Fits find the rates that rows were made from."""

import json
from dataclasses import replace

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.kinds.training.calibrate import (
    band,
    calibrate,
    fit,
    folds,
    median_error,
    predicted,
    samples,
)
from milp_plan.kinds.training.efficiency import (
    DeviceRates,
    Efficiency,
    ErrorBand,
    as_document,
    efficiency_from,
    read_efficiency,
    shipped,
    shipped_for,
)
from milp_plan.kinds.training.measured import measured_rows
from tests.cli.cases import call

from .measured_rows import TRUE, rows, text


def wrong(true: Efficiency = TRUE) -> Efficiency:
    software = replace(true.software, launch_ns=9_000.0, step_ns=3e6)
    return Efficiency({"A100": DeviceRates()}, software)


def test_rates_that_made_the_rows_are_found_again() -> None:
    made = [row for row in rows() if row["gpus"] == "8" and row["hidden"] == "1024"]
    found = calibrate(measured_rows(made), wrong(), "rows")
    assert median_error(found.samples, found.before) > 0.1
    assert median_error(found.samples, found.after) < 0.01
    launch = found.efficiency.software.launch_ns
    assert launch == pytest.approx(TRUE.software.launch_ns, rel=0.05)


def test_a_calibration_says_what_it_was_fitted_on_and_how_well_it_predicts_others() -> None:
    found = calibrate(measured_rows(rows()[::8]), wrong(), "made rows")
    assert found.efficiency.fitted_on == f"{len(found.samples)} measured steps of made rows"
    assert found.efficiency.band.rows == len(found.samples)
    assert len(found.left_out) == len(found.samples)
    assert median_error(found.samples, found.after) <= median_error(found.samples, found.left_out)


def test_what_rows_say_nothing_about_stays_where_it_began() -> None:
    """One device: no link is used."""
    alone = [row for row in rows() if row["gpus"] == "2" and row["tp"] == row["pp"] == "1"]
    found = fit(samples(measured_rows(alone), wrong()), wrong(), "A100").rates("A100")
    assert found.network == pytest.approx(DeviceRates().network, rel=0.01)


def test_one_slow_run_does_not_bend_the_fit() -> None:
    made = rows()
    made[7]["step_time_s"] = str(20 * float(made[7]["step_time_s"]))
    chosen = samples(measured_rows(made), wrong())
    found = fit(chosen, wrong(), "A100")
    assert median_error(chosen, [predicted(each, found) for each in chosen]) < 0.05


def test_folds_keep_keys_together_and_leave_none_out() -> None:
    chosen = samples(measured_rows(rows()), TRUE)
    parts = folds(chosen, lambda each: each.run.cluster.devices)
    assert sorted(index for part in parts for index in part) == list(range(len(chosen)))
    sizes = [{chosen[index].run.cluster.devices for index in part} for part in parts]
    assert sorted(map(tuple, sizes)) == [(2,), (4,), (8,)]


def test_the_band_is_of_quantiles() -> None:
    found = band([1 + i / 100 for i in range(-10, 11)])
    assert (found.low, found.high) == (pytest.approx(0.92), pytest.approx(1.08))
    assert found.median_error == pytest.approx(0.05)
    assert band([]) == ErrorBand()


def test_no_measured_step_is_an_error() -> None:
    crashed = [row | {"step_time_s": "", "status": "crashed"} for row in rows()[:2]]
    with pytest.raises(InputError, match="measured step"):
        calibrate(measured_rows(crashed), wrong(), "rows")


def test_rates_come_back_from_their_file(tmp_path) -> None:
    assert efficiency_from(as_document(TRUE), "megatron-2021") == TRUE
    path = tmp_path / "rates.json"
    for content in ("[]", "{}", '{"software": {"megatron-2021": {"devices": {"A100": {"x": 1}}}}}'):
        path.write_text(content)
        with pytest.raises(InputError, match=r"rates\.json"):
            read_efficiency(path, "megatron-2021")


def test_the_verb_compares_fits_and_reads_its_fit(tmp_path) -> None:
    file, rates = tmp_path / "rows.csv", tmp_path / "rates.json"
    made = rows()[::8]
    file.write_text(text(made))
    asked = ("calibrate", file, "--software", "megatron-2021")
    compared = call(*asked)
    assert compared.exit_code == Exit.DONE, compared.stderr
    assert f"{len(made)} rows; median error" in compared.stdout
    fitted = call(*asked, "--fit", rates)
    assert "model and size left out" in fitted.stdout
    again = json.loads(call(*asked, "--rates", rates, "--json").stdout)
    assert again["median_error"] < 0.1
    assert len(again["rows"]) == len(made)
    assert call(*asked, "--fit", rates).exit_code == Exit.DONE
    assert call(*asked, "--fit", file).exit_code == Exit.USAGE


def test_the_verb_names_file_row_and_field(tmp_path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text(rows()).replace("A100", "A1000", 1))
    found = call("calibrate", file)
    assert found.exit_code == Exit.BAD_INPUT
    for words in ("rows.csv", "row 2, gpu", "'A1000'"):
        assert words in found.stderr


def test_rates_of_a_framework_are_used_where_it_was_measured() -> None:
    assert shipped_for("torchtitan", ["H100"], False).software.name == "fsdp"
    assert shipped_for("fsdp2", ["A100", "A100-40GB"], False).software.name == "fsdp"
    for framework, devices, experts in (
        ("", ["H100"], False),
        ("megatron", ["H100"], False),
        ("torchtitan", ["H100"], True),
        ("torchtitan", ["H100", "B200"], False),
    ):
        assert shipped_for(framework, devices, experts) is shipped()


def test_a_device_class_may_have_the_rates_of_another_framework() -> None:
    """They are no part of the mean for classes that are not known, and a fit replaces them."""
    core, older = shipped(), shipped("megatron-2021")
    assert core.rates("A100") == older.rates("A100")
    assert core.origin(["A100"], False).startswith("of A100 as under megatron-2021, fitted to")
    assert not core.measured(["A100"])
    assert "A100" not in core.origin(["V100"], False)
    assert core.rates("V100").matrix < core.rates("A100").matrix
    fitted = core.with_rates("A100", DeviceRates())
    assert "as under" not in fitted.origin(["A100"], False)
    assert efficiency_from(as_document(core), core.software.name) == core
