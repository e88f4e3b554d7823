"""``info``: what is in an instance file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from milp_plan.io import answer_wire as wire

from .answers import answer_each, head
from .inputs import PATH, Item, varied
from .output import say, say_table


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@varied
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and file.")
@click.pass_context
def info(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    changes: dict[str, Any],
    as_json: bool,
) -> None:
    """Show what is in an instance: sizes, settings, source."""
    ctx.exit(answer_each(files, changes, wire.Info, _work, as_json=as_json))


def _work(item: Item, as_text: bool) -> wire.Info:
    kind, problem = item.kind, item.problem
    assert kind is not None
    facts = {**kind.info(problem), "provenance": dict(problem.provenance)}
    answer = wire.Info(**head(item), about=kind.summary(problem), facts=facts)
    if as_text:
        source = [[f"from: {key}", text] for key, text in problem.provenance.items()]
        say(problem.name)
        rows = [
            ["kind", kind.name],
            ["objective", str(answer.objective)],
            ["scope", str(answer.scope)],
        ]
        rows += kind.rows(problem)
        say_table(["", ""], rows + source)
    return answer
