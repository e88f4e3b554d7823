"""``diff``: compares two plans of an instance, or of variants of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError, MilpPlanError
from milp_plan.io import answer_wire as wire
from milp_plan.io import reason_wire
from milp_plan.run.scope import scope_of

from .answers import components_in_unit, failure, head, say_answer, say_scope, whole
from .check import verified
from .exits import Exit, code_of, most_serious
from .explain import to_wire
from .inputs import PATH, Item, items, varied
from .output import complain, note, say, say_table
from .outputs import Content, Output, Writing, refuse

if TYPE_CHECKING:
    from milp_plan.run.comparison import Comparison, Side

MOST = 20
"""Maximum number of components that are listed."""


@click.command()
@click.argument("plans", metavar="PLAN PLAN", type=PATH, nargs=2)
@click.option(
    "--instance",
    "files",
    type=PATH,
    multiple=True,
    help="The instance that both plans are for; twice, where the second plan is for a variant. "
    "Plans in a folder of records need none: their records say what they are for.",
)
@varied
@click.option("--plot", type=PATH, help="Draw both next to each other, .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def diff(
    ctx: click.Context,
    /,
    *,
    plans: tuple[Path, Path],
    files: tuple[Path, ...],
    changes: dict[str, Any],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what differs between two plans: value, what moved, what that cost.

    Each PLAN is a file. Without --instance its record must be in the same folder, as
    `milp-plan solve` writes both.

    Exits with 7 when one of them breaks a rule.
    """
    if len(files) > 2:
        raise click.UsageError("--instance: once, or twice for two variants")
    refuse([Output("--plot", plot, Content.PICTURE)], [*plans, *files])
    first, second = _items(plans, files, changes)
    written = Writing()
    try:
        comparison = _compared(first, second, plans)
    except MilpPlanError as error:
        broken = second if first.error is None and second.error is not None else first
        complain(error, broken.path)
        if as_json:
            say_answer(failure(wire.Diff, broken, error))
        ctx.exit(code_of(error))
    if plot is not None:
        written.write("plot_file", plot, partial(comparison.draw, titles=[p.name for p in plans]))
    valid = comparison.before.verdict.ok and comparison.after.verdict.ok
    code = most_serious([Exit.DONE if valid else Exit.NOT_VALID, written.code])
    if as_json:
        say_answer(_answer((first, second), plans, comparison, written, code))
    else:
        _show(comparison, plans)
        if "plot_file" in written.files:
            say(written.files["plot_file"])
    for failed in written.failures:
        note(f"error: {failed}")
    ctx.exit(code)


def _items(
    plans: tuple[Path, Path], files: tuple[Path, ...], changes: dict[str, Any]
) -> tuple[Item, Item]:
    """Return the instance of each plan: the named one, or that of the plan's record."""
    if files:
        first, *rest = items(files, changes)
        return first, rest[0] if rest else first
    if given := [name for name, change in changes.items() if change]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --instance")
    return _of_record(plans[0]), _of_record(plans[1])


def _of_record(plan: Path) -> Item:
    from milp_plan.io.record_file import read_record
    from milp_plan.report.page.entry import PLAN_SUFFIX, RECORD_SUFFIX, read_instance

    record = plan.with_name(plan.name.removesuffix(PLAN_SUFFIX) + RECORD_SUFFIX)
    if not plan.name.endswith(PLAN_SUFFIX) or not record.is_file():
        found, expected = "no record next to it", f"NAME{RECORD_SUFFIX} beside NAME{PLAN_SUFFIX}"
        finding = Finding("plan", found, expected, "say --instance FILE", str(plan))
        return Item(plan, None, None, InputError([finding]))
    try:
        kind, problem, file = read_instance(record, read_record(record))
    except InputError as error:
        return Item(plan, None, None, error)
    return Item(file, kind, problem)


def _compared(first: Item, second: Item, plans: tuple[Path, Path]) -> Comparison:
    from milp_plan.run.comparison import Side, compare

    sides = []
    for item, plan_file in zip((first, second), plans, strict=True):
        if item.error is not None:
            raise item.error
        plan, verdict = verified(item, plan_file)
        sides.append(Side(item.problem, plan, verdict))
    try:
        return compare(*sides)
    except InputError as error:
        raise error.in_file(str(second.path)) from None


def _answer(
    pair: tuple[Item, Item],
    plans: tuple[Path, Path],
    found: Comparison,
    written: Writing,
    code: Exit,
) -> wire.Diff:
    from milp_plan.run import kind_of

    measure = kind_of(found.before.problem).measure(found.before.problem)
    sides = [
        _side(item, plan_file, side)
        for item, plan_file, side in zip(pair, plans, (found.before, found.after), strict=True)
    ]
    return wire.Diff(
        **head(pair[0]) | {"exit_code": int(code)},
        errors=written.failures,
        before=sides[0],
        after=sides[1],
        change=whole(found.change),
        change_in_unit=measure.decimal(found.change),
        moves=[to_wire(move, reason_wire.Move) for move in found.moves],
        plot_file=written.files.get("plot_file"),
    )


def _side(item: Item, plan_file: Path, side: Side) -> reason_wire.Side:
    assert item.kind is not None
    return reason_wire.Side(
        plan_file=str(plan_file),
        file=str(item.path),
        fingerprint=item.problem.fingerprint,
        verdict="ok" if side.verdict.ok else "violated",
        value=side.verdict.value,
        value_in_unit=item.kind.measure(item.problem).decimal(side.verdict.value),
        bound=side.bound,
        components=dict(side.verdict.components),
        components_in_unit=components_in_unit(item, side.verdict),
    )


def _show(comparison: Comparison, plans: tuple[Path, Path]) -> None:
    from milp_plan.run.comparison import difference_line
    from milp_plan.run.reasons.words import component_rows, difference_lines

    say(difference_line(comparison))
    say_scope(scope_of(comparison.before.problem))
    for line in difference_lines(comparison, [str(plan) for plan in plans]):
        say(line)
    rows = component_rows(comparison)
    if rows:
        say_table(["part", "first", "second", "change"], rows[:MOST], numeric=[1, 2, 3])
        if len(rows) > MOST:
            say(f"and {len(rows) - MOST} more")
