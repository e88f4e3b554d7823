"""``calibrate``: measured training steps against predicted ones, and rates fitted to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli.inputs import PATH
from milp_plan.cli.output import say
from milp_plan.cli.outputs import Content, Output, refuse

if TYPE_CHECKING:
    from .calibrate import Calibrated


@click.command()
@click.argument("rows", type=PATH)
@click.option(
    "--software",
    default="megatron-core",
    show_default=True,
    help="Framework that ran: megatron-core, megatron-2021, megatron-deepspeed, nanotron, fsdp.",
)
@click.option("--rates", type=PATH, help="Rates to start from, written by --fit.")
@click.option("--fit", "fit_file", type=PATH, help="Fit rates to the rows and write them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def calibrate(
    *, rows: Path, software: str, rates: Path | None, fit_file: Path | None, as_json: bool
) -> None:
    """Compare the measured training steps of ROWS with predictions, and fit rates to them.

    ROWS is a CSV file: a model, a cluster, a configuration and a time per row; its columns are in
    instances/formats/measured-training.md. Without --fit, every row is shown as predicted by the
    shipped rates, or by those of --rates. With --fit, rates of every device class among the rows
    are fitted and written, with the error of rows whose model and cluster size were left out.
    """
    from .calibrate import calibrate as fitted
    from .calibrate import compared
    from .efficiency import as_document, read_efficiency, shipped
    from .measured import read_measured

    refuse([Output("--fit", fit_file, Content.RATES)], [p for p in (rows, rates) if p is not None])
    start = read_efficiency(rates, software) if rates is not None else shipped(software)
    runs = read_measured(rows)
    if fit_file is None:
        found = compared(runs, start)
    else:
        found = fitted(runs, start, rows.name)
        fit_file.write_text(json.dumps(as_document(found.efficiency), indent=2) + "\n")
    if as_json:
        say(json.dumps(_data(found)))
        return
    for line in _lines(found, fit_file):
        say(line)


def _data(found: Calibrated) -> dict[str, Any]:
    from .calibrate import median_error
    from .efficiency import as_document

    steps = [
        {
            "row": each.run.row,
            "measured_s": each.run.step_s,
            "predicted_s": before,
            "fitted_s": after,
        }
        for each, before, after in zip(found.samples, found.before, found.after, strict=True)
    ]
    return {
        "software": found.efficiency.software.name,
        "rows": steps,
        "median_error": median_error(found.samples, found.before),
        "median_error_fitted": median_error(found.samples, found.after),
        "median_error_left_out": median_error(found.samples, found.left_out),
        "rates": as_document(found.efficiency),
    }


def _lines(found: Calibrated, fit_file: Path | None) -> list[str]:
    from .calibrate import median_error
    from .texts import configuration_text

    efficiency = found.efficiency
    if fit_file is None:
        lines = ["  row  measured, s  predicted, s  ratio  configuration"]
        for each, value in zip(found.samples, found.before, strict=True):
            measured = each.run.step_s or 0.0
            lines.append(
                f"{each.run.row:5d} {measured:12.4f} {value:13.4f} {value / measured:6.2f}  "
                f"{each.run.cluster.name} · {configuration_text(each.run.configuration)}"
            )
        error = median_error(found.samples, found.before)
        return [*lines, f"{len(found.samples)} rows; median error {_share(error)}"]
    lines = [
        f"{len(found.samples)} rows of {efficiency.software.name}",
        f"median error before {_share(median_error(found.samples, found.before))}, "
        f"fitted {_share(median_error(found.samples, found.after))}, "
        f"model and size left out {_share(median_error(found.samples, found.left_out))}",
    ]
    for device, rates in efficiency.devices.items():
        lines.append(
            f"{device}: matrix {rates.matrix:.3f}, experts {rates.grouped:.3f}, attention "
            f"{rates.attention:.3f}, memory {rates.memory:.3f}, node {rates.node:.3f}, network "
            f"{rates.network:.3f}, latency {rates.latency_ns / 1e3:.1f} µs, kernel "
            f"{rates.kernel_ns / 1e3:.1f} µs"
        )
    software = efficiency.software
    lines.append(
        f"launch {software.launch_ns / 1e3:.1f} µs, step {software.step_ns / 1e6:.1f} ms, overlap "
        f"{software.overlap:.2f}"
    )
    return [*lines, f"{fit_file}: rates of {efficiency.software.name}"]


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"
