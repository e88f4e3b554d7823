"""Reads the model that ``pipeline`` plans: costs of a share, pieces of a file, captured stages."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from milp_plan.cli.answers import code_of_outcome
from milp_plan.cli.output import note
from milp_plan.core import Amount, Finding, InputError
from milp_plan.core.quantity import NANOSECONDS, UNSPECIFIED

if TYPE_CHECKING:
    from .model import Model

RESHARDING_S = 10.0
"""Time limit for planning a transfer, seconds."""


def amount(text: str, option: str | None = None) -> Amount:
    """Read an exact amount, such as ``10``, ``0.5``, ``1/3`` or ``1.5GiB``."""
    try:
        return Amount.read(text)
    except ValueError as error:
        hint = None if option is None else f"'{option}'"
        raise click.BadParameter(str(error), param_hint=hint) from None


def read_model(costs: list[Amount] | Path, transfer: str | None, freed: Fraction) -> Model:
    """Return the model of ``--times``, with the time of ``--transfer`` if there is one."""
    from milp_plan.io.pipeline_file import exact, read_pipeline_file

    from .model import Model, Piece

    if not isinstance(costs, Path):
        unit = next((cost.unit for cost in costs if cost.unit), UNSPECIFIED)
        bare = Model((), time_unit=unit)
        forward, backward, weight = (in_unit("--times", bare, t, time=True) for t in costs)
        between = Fraction(0) if transfer is None else _between(transfer, bare)
        return Model.from_share((forward, backward, weight), between, freed, unit)
    if freed:
        raise click.UsageError("--freed-at-backward: set held_to_backward in the file instead")
    if costs.suffix == ".json":
        return captured_stages(costs, transfer)
    read = read_pipeline_file(costs)
    pieces = []
    for piece in read.pieces:
        amounts = (exact(number) for number in piece.amounts)
        pieces += [Piece(*amounts, name=piece.name)] * piece.repeat
    model = Model(
        tuple(pieces),
        exact(read.transfer),
        time_unit=read.time_unit,
        size_unit=read.size_unit,
        memory=None if read.memory is None else exact(read.memory),
    )
    return model if transfer is None else replace(model, transfer=_between(transfer, model))


def captured_stages(file: Path, transfer: str | None) -> Model:
    """Return the stages of a captured model, in nanoseconds and bytes."""
    from milp_plan.capture.stages import read_stages

    from .model import Model, Piece

    read = read_stages(file)
    pieces = tuple(
        Piece(
            stage.forward,
            stage.backward,
            stage.weight,
            held_to_weight=stage.held,
            gradient=stage.gradient,
            name=" … ".join(dict.fromkeys([stage.modules[0], stage.modules[-1]])),
            arrives=stage.receives,
            parameters=stage.parameters + stage.gradients + stage.state,
        )
        for stage in read.stages
    )
    model = Model(
        pieces,
        read.transfer,
        time_unit="ns",
        size_unit="bytes",
        memory=read.memory,
        workspace=max(stage.workspace for stage in read.stages),
    )
    return model if transfer is None else replace(model, transfer=_between(transfer, model))


def _between(transfer: str, model: Model) -> Fraction:
    """Read a time, or plan a change of layout between two stages and return how long it takes.

    Raises
    ------
    InputError
        The file is no resharding problem, or times of the pipeline have no unit.
    Exit
        It has no plan, or none was found.
    """
    if not transfer.endswith((".json", ".json.gz")):
        return in_unit("--transfer", model, amount(transfer, "--transfer"), time=True)
    from milp_plan import run

    unit = model.time_unit
    kind, problem = run.read(transfer)
    measure = kind.measure(problem)
    if unit not in NANOSECONDS or measure.unit != "ns":
        expected = f"a problem in ns, and a pipeline file with time_unit {', '.join(NANOSECONDS)}"
        found = f"{measure.objective} in {measure.unit}, times in {unit}"
        remedy = "name the unit of times in the pipeline file"
        raise InputError([Finding("--transfer", found, expected, remedy, transfer)])
    outcome = run.solve(problem, run.Settings(time_limit_s=RESHARDING_S))
    if outcome.value is None:  # as solve of that file ends
        from milp_plan.run.outcome import headline

        note(f"--transfer {transfer}: {headline(outcome)}")
        raise click.exceptions.Exit(code_of_outcome(outcome))
    proved = "proved" if outcome.proved else f"at least {measure.text(outcome.bound)}"
    note(f"a transfer takes {measure.text(outcome.value)} ({proved})")
    return Fraction(outcome.value, NANOSECONDS[unit])


def in_unit(where: str, model: Model, value: Amount, *, time: bool = False) -> Fraction:
    """Return an amount in the unit of the model's times or sizes."""
    from milp_plan.run.change import counted_exactly

    return counted_exactly(where, model.units.ticks if time else model.units.counts, value)
