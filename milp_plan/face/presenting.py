"""Views of problems, plans and outcomes: as text, on a terminal, in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from milp_plan.core import Verdict
from milp_plan.core.shown import ShownPlan, problem_of
from milp_plan.run import Outcome, kind_of
from milp_plan.run.comparison import Comparison, difference_line
from milp_plan.run.outcome import headline
from milp_plan.run.scope import scope_of
from milp_plan.run.summary import facts, warnings

from . import verbs
from .reasons import Explanation
from .variants import Variants

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 12
"""Maximum rows of a plan that are shown; its frame has all of them."""

_CELL = "text-align:left;padding:0.1em 0.8em 0.1em 0"


class Summary(NamedTuple):
    """A title, rows of cells under headings (none if all are empty), and lines below."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    below: list[str]


def summary_of(item: Any) -> Summary:
    """Return the view of a problem, plan or outcome of any kind."""
    if isinstance(item, Outcome):
        return Summary(headline(item), ["", ""], facts(item), warnings(item))
    if isinstance(item, ShownPlan):
        return _of_plan(item)
    if isinstance(item, Verdict):
        return _of_verdict(item)
    if isinstance(item, Explanation):
        return Summary(f"{item.problem.name}, explained", [], [], list(item.lines))
    if isinstance(item, Comparison):
        return _of_comparison(item)
    if isinstance(item, Variants):
        return _of_variants(item)
    kind = kind_of(item)
    title = f"{item.name}: {kind.name} problem, objective {kind.measure(item).objective}"
    return Summary(title, ["", ""], [["scope", str(scope_of(item))], *kind.rows(item)], [])


def _of_plan(plan: Any) -> Summary:
    problem, kind = problem_of(plan), verbs.plan_kind(plan)
    title = f"plan of {plan.problem}"
    if plan.value is not None:
        figure = f"{plan.value:,}" if problem is None else kind.measure(problem).text(plan.value)
        title += f": {figure}"
    if plan.planner:
        title += f", by {plan.planner}"
    rows: Iterator[dict[str, Any]] = kind.plan_rows(problem, plan)
    first = list(islice(rows, MOST_ROWS))
    more = sum(1 for _ in rows)
    below = [f"and {more:,} more; see to_frame()"] if more else []
    headings = list(first[0]) if first else []
    return Summary(title, headings, [[_cell(c) for c in row.values()] for row in first], below)


def _of_comparison(comparison: Comparison) -> Summary:
    from milp_plan.run.reasons.words import component_rows, difference_lines

    rows = component_rows(comparison)
    more = [f"and {len(rows) - MOST_ROWS:,} more parts"] if len(rows) > MOST_ROWS else []
    headings = ["part", "before", "after", "change"] if rows else ["", ""]
    below = [*more, *difference_lines(comparison, ("before", "after"))]
    return Summary(difference_line(comparison), headings, rows[:MOST_ROWS], below)


def _of_variants(sweep: Variants) -> Summary:
    from milp_plan.report.variants import sweep_rows

    headings, rows = sweep_rows(sweep.sweep)
    objective = kind_of(sweep.problem).measure(sweep.problem).objective
    left = ["interrupted: the rest is not planned"] if sweep.interrupted else []
    left.append(f"scope: {scope_of(sweep.problem)}")
    return Summary(f"{sweep.problem.name}: {objective}", headings, rows, left)


def _of_verdict(verdict: Verdict) -> Summary:
    count = len(verdict.violations)
    word = "valid" if verdict.ok else f"not valid, {count} violation{'' if count == 1 else 's'}"
    value = "" if verdict.value is None else f", {verdict.objective} {verdict.value:,}"
    rows = [[entry.rule, str(entry).partition(": ")[2]] for entry in verdict.violations[:MOST_ROWS]]
    more = [f"and {count - MOST_ROWS:,} more"] if count > MOST_ROWS else []
    return Summary(f"{word}{value}", ["rule", "what breaks it"] if rows else ["", ""], rows, more)


def _cell(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, tuple):
        return ", ".join(str(entry) for entry in content)
    return f"{content:,}" if type(content) is int else str(content)


def text(item: Any) -> str:
    """Return a view as lines of text."""
    title, headings, rows, below = summary_of(item)
    lines = [headings, *rows] if any(headings) else rows
    widths = (
        [max(len(row[place]) for row in lines) for place in range(len(headings))] if lines else []
    )
    padded = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in lines]
    return "\n".join([title, *(f"  {line}".rstrip() for line in padded), *below])


def table(item: Any) -> Table:
    """Return a view as a table of rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title, headings, rows, below = summary_of(item)
    found = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption=Text("\n".join(below)) if below else None,
        caption_justify="left",
        show_header=any(headings),
        box=box.SIMPLE_HEAD if any(headings) else None,
    )
    for heading in headings:
        found.add_column(heading, overflow="fold")
    for row in rows:
        found.add_row(*(Text(cell) for cell in row))
    return found


def html(item: Any) -> str:
    """Return a view as HTML that follows the colours of the page, light or dark."""
    title, headings, rows, below = summary_of(item)
    head = "".join(f'<th style="{_CELL}">{escape(entry)}</th>' for entry in headings)
    lines = ["".join(f'<td style="{_CELL}">{escape(c)}</td>' for c in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{head}</tr></thead>" if any(headings) else ""
    foot = "".join(f'<div style="white-space:pre-wrap">{escape(line)}</div>' for line in below)
    return (
        f'<div><div style="font-weight:bold">{escape(title)}</div>'
        f'<table style="border-collapse:collapse">{top}<tbody>{body}</tbody></table>{foot}</div>'
    )


frame, draw = verbs.to_frame, verbs.draw
"""A plan as a table and as a picture."""
