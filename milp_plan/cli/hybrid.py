"""``hybrid``: split a model into stages with data, tensor degree and recomputation each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError
from milp_plan.core.amounts import seconds_text, share_text, size_text, time_text
from milp_plan.core.budget import now

from . import interrupts
from .exits import Exit
from .inputs import PATH
from .interrupts import Deferred
from .output import note, say, say_json, say_table
from .outputs import Content, Output, refuse

if TYPE_CHECKING:
    from milp_plan.core import Verdict
    from milp_plan.hybrid import HybridPlan, HybridProblem, Limits
    from milp_plan.run.hybrid import HybridOutcome

_FACTORS = {
    "": 1,
    "B": 1,
    **{f"{letter}iB": 2 ** (10 * i) for i, letter in enumerate("KMGT", 1)},
    **{f"{letter}B": 10 ** (3 * i) for i, letter in enumerate("kMGT", 1)},
}
KEYS = (
    "instance",
    "objective",
    "limits",
    "value",
    "bound",
    "bound_name",
    "gap",
    "stop",
    "verdict",
    "planner",
    "seconds",
    "proved",
    "units",
    "disputed_because",
    "infeasible_because",
    "best_baseline",
    "baseline_name",
    "down_sets",
    "sweeps",
    "phases",
    "key",
)
"""Members of the record that ``--json`` prints."""


def size(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Fraction | None:
    """Read an exact size: ``8GiB``, ``80GB``, ``1.5GiB``, a number of bytes; also per second."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9.]+(?:/[0-9]+)?)\s*([A-Za-z]*)\s*(?:/s)?\s*", text)
    try:
        if found is None or found[2] not in _FACTORS:
            raise ValueError
        number, unit = Fraction(found[1]), Fraction(_FACTORS[found[2]])
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(
            f"{text!r} is no size; write for example 8GiB, 80GB or 17179869184"
        ) from None
    return number * unit


@click.command()
@click.argument("file", type=PATH)
@click.option("--devices", type=click.IntRange(min=1), help="Number of devices.")
@click.option("--memory", callback=size, metavar="SIZE", help="Memory of each: 8GiB, 80GB.")
@click.option(
    "--samples",
    "--micro-batches",
    "micro_batches",
    type=click.IntRange(min=1),
    help="Micro-batches of a batch; data degrees divide it.",
)
@click.option("--bandwidth", callback=size, metavar="RATE", help="Between devices: 25GB/s.")
@click.option("--no-data", is_flag=True, help="No data parallelism.")
@click.option("--no-tensor", is_flag=True, help="No tensor parallelism.")
@click.option("--no-recomputation", is_flag=True, help="No recomputation of activations.")
@click.option("--no-baseline", is_flag=True, help="Do not plan the uniform split as well.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds.",
)
@click.option("--plan-output", type=PATH, help="Write the plan here as well.")
@click.option(
    "--record-folder",
    type=PATH,
    default=Path("results/runs"),
    show_default=True,
    help="Where a record and a plan are written.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def hybrid(
    ctx: click.Context,
    /,
    *,
    file: Path,
    time_limit: float,
    no_baseline: bool,
    plan_output: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Split FILE (Piper's format) into stages: data, tensor degree, recomputation; exact.

    Limits that are not given are the file's own. Exits with 4 when it is proved that no plan
    exists.
    """
    from milp_plan.io import read_hybrid, write_hybrid_plan
    from milp_plan.run.hybrid import solve_hybrid, write_hybrid_record

    refuse([Output("--plan-output", plan_output, Content.PLAN)], [file])
    record_folder.mkdir(parents=True, exist_ok=True)  # say so now rather than after the solve
    problem = read_hybrid(file)
    problem = problem.with_limits(_limits(problem.limits, asked))
    show = None if quiet else _news(problem)
    outcome = solve_hybrid(problem, time_limit, show, baseline=not no_baseline)
    with Deferred():
        path = write_hybrid_record(outcome, record_folder)
        written = {"record_file": str(path), "plan_file": None}
        if outcome.plan is not None:
            written["plan_file"] = str(path.with_suffix(".plan.json"))
            if plan_output is not None:
                write_hybrid_plan(outcome.plan, plan_output)
                written["plan_file"] = str(plan_output)
        code = _code(outcome)
        if as_json:
            told = {key: outcome.record[key] for key in KEYS}
            say_json({"file": str(file)} | told | written | {"exit_code": int(code)})
        else:
            _show(outcome, written)
        if outcome.disputed_because:
            note(f"{problem.name}: the checker disputes the planner: {outcome.disputed_because}")
    ctx.exit(code)


def _limits(limits: Limits, asked: dict[str, Any]) -> Limits:
    given: dict[str, Any] = {
        "devices": asked["devices"],
        "memory_bytes": asked["memory"],
        "bandwidth_bytes_per_s": asked["bandwidth"],
        "micro_batches": asked["micro_batches"],
    }
    names = ("data", "tensor", "recomputation")
    switches: dict[str, Any] = {name: not asked[f"no_{name}"] for name in names}
    known = {name: number for name, number in given.items() if number is not None}
    return replace(limits, **known, **switches)


def _news(problem: HybridProblem) -> Callable[[float, float], None]:
    began = now()

    def show(seconds: float, bound: float) -> None:
        incumbent = "none" if seconds == float("inf") else f"{seconds:.6g} s"
        spent = now() - began
        note(f"{problem.name}: incumbent {incumbent}, bound {bound:.6g} s, {spent:.1f} s")

    return show


def _code(outcome: HybridOutcome) -> Exit:
    if outcome.disputed_because:
        return Exit.NOT_VALID
    if outcome.stop.value == "interrupted":
        return interrupts.code()
    if outcome.plan is not None:
        return Exit.DONE
    return Exit.NO_PLAN if outcome.infeasible_because is None else Exit.INFEASIBLE


def _show(outcome: HybridOutcome, written: dict[str, str | None]) -> None:
    problem, units = outcome.problem, outcome.problem.units
    if outcome.value is None:
        because = outcome.infeasible_because
        say(f"{problem.name}: " + (f"no plan exists: {because}" if because else "no plan found"))
    else:
        proof = ", proved optimal" if outcome.proved else ""
        say(f"{problem.name}: {time_text(units, outcome.value)} per sample{proof}")
    facts = [
        ("limits", limits_text(problem)),
        ("bound", time_text(units, outcome.bound)),
        ("gap", share_text(outcome.gap)),
        ("check", outcome.record["verdict"]),
        ("uniform", time_text(units, outcome.uniform)),
        ("stop", f"{outcome.stop} after {seconds_text(outcome.answer.elapsed_s)}"),
        *((key.removesuffix("_file"), name) for key, name in written.items() if name),
    ]
    for label, text in facts:
        say(f"  {label:<10} {text}")
    if outcome.plan is not None and outcome.verdict is not None and outcome.verdict.ok:
        heads = ["stage", "layers", "from", "data", "tensor", "recomputed", "in flight"]
        heads += ["memory", "per sample"]
        rows = _rows(problem, outcome.plan, outcome.verdict)
        say_table(heads, rows, numeric=(0, 1, *range(3, 9)))


def _rows(problem: HybridProblem, plan: HybridPlan, verdict: Verdict) -> list[list[str]]:
    rows = []
    for i, stage in enumerate(plan.stages):
        chosen = [
            problem.by_name[choice.layer].configuration(stage.tensor, choice.configuration)
            for choice in stage.choices
        ]
        rows.append(
            [
                str(i),
                str(len(chosen)),
                stage.choices[0].layer,
                str(stage.data),
                str(stage.tensor),
                str(sum(entry is not None and entry.recomputes for entry in chosen)),
                str(verdict.components[f"in flight {i}"]),
                size_text(problem.units, verdict.components[f"memory {i}"]),
                time_text(problem.units, verdict.components[f"seconds {i}"]),
            ]
        )
    return rows


def limits_text(problem: HybridProblem) -> str:
    """Write the limits of a problem in words."""
    limits = problem.limits
    memory, rate = (
        size_text(problem.units, int(number))
        for number in (limits.memory_bytes, limits.bandwidth_bytes_per_s)
    )
    off = [name for name in ("data", "tensor", "recomputation") if not getattr(limits, name)]
    text = f"{limits.devices} devices of {memory}, {rate}/s, {limits.micro_batches} micro-batches"
    return text + (f", without {', '.join(off)}" if off else "")


def check_hybrid(file: Path, plan_file: Path, *, as_json: bool) -> Exit:
    """Hold a plan of hybrid parallelism against its law; its own limits count, if it has any.

    Raises
    ------
    InputError
        A file is not what its format says, or the plan is for another instance.
    """
    from milp_plan.check.hybrid import verify_hybrid
    from milp_plan.io import read_hybrid, read_hybrid_plan

    problem, plan = read_hybrid(file), read_hybrid_plan(plan_file)
    if plan.problem != problem.name:
        found, expected = f"a plan for {plan.problem!r}", f"a plan for {problem.name!r}"
        remedy = "name the instance and the plan that belong together"
        raise InputError([Finding("problem", found, expected, remedy, str(plan_file))])
    if plan.limits is not None:
        problem = problem.with_limits(plan.limits)
    verdict = verify_hybrid(problem, plan)
    if as_json:
        say_json(
            {
                "instance": problem.name,
                "verdict": "ok" if verdict.ok else "violated",
                "objective": verdict.objective,
                "value": verdict.value,
                "time_scale": problem.units.time_scale,
                "violations": [asdict(violation) for violation in verdict.violations],
                "components": dict(verdict.components),
            }
        )
    elif verdict.ok:
        value = time_text(problem.units, verdict.value)
        say(f"{problem.name}: valid, {value} per sample ({verdict.value} ticks)")
        say(f"  {limits_text(problem)}")
    else:
        count = len(verdict.violations)
        say(f"{problem.name}: not valid, {count} violation{'' if count == 1 else 's'}")
        for violation in verdict.violations:
            say(f"  {violation.text(problem.units)}")
    return Exit.DONE if verdict.ok else Exit.NOT_VALID
