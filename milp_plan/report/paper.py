"""Paper tables as Markdown: one section per group of cases, every case, wins and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

DASH = "—"

NOTE = """\
Times are in the unit of the case. *Expert* and *peer*: the best expert schedule of this package
under the same placement and memory limit, recomputed by the checker, and the best value others
report for it (source below); a dash where there is none. *Bubble* = value − work of the busiest
device. The value is recomputed from the plan alone in exact integers; the bound is on the whole
problem. Seconds are wall clock until the run ended, and until the best plan was found."""


def paper_table(
    title: str,
    about: str,
    rows: Sequence[Row],
    standings: Sequence[str],
    *,
    command: str,
    figure: str | None = None,
) -> str:
    """Write the table.

    Parameters
    ----------
    title, about
        Above it.
    rows, standings
        As ``milp_plan.run.paper`` makes them: data of each case, and ``win``, ``tie``, ``loss`` or
        ``alone``.
    command
        What makes the table again.
    figure
        File name of a picture to show.
    """
    lines = [f"# {title}", "", "Generated, do not edit. Made again by:", "", "```", command, "```"]
    lines += ["", about.strip(), "", NOTE, "", _summary(rows, standings)]
    if figure is not None:
        lines += ["", f"![{title}]({figure})"]
    for section in dict.fromkeys(row["section"] for row in rows):
        chosen = [(r, s) for r, s in zip(rows, standings, strict=True) if r["section"] == section]
        lines += ["", f"## {section}", ""] if section else [""]
        lines += _section([row for row, _ in chosen], [standing for _, standing in chosen])
    sources = dict.fromkeys(source for row in rows for _, _, source in row["peers"])
    if sources:
        lines += ["", "Sources of the peers' values:", "", *(f"- {source}" for source in sources)]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row], standings: Sequence[str]) -> str:
    counts = {name: standings.count(name) for name in ("win", "tie", "loss", "alone")}
    proved = sum(bool(row["proved"]) for row in rows)
    beatable = [
        standing
        for row, standing in zip(rows, standings, strict=True)
        if row["best_rival"] is not None
        and row["bound"] is not None
        and row["best_rival"] > row["bound"]
    ]
    checked = sum(row["verdict"] == "ok" for row in rows)
    return (
        f"{len(rows)} cases: {checked} plans pass the check, {proved} proved optimal; against the "
        f"best expert or peer {counts['win']} better, {counts['tie']} equal, {counts['loss']} "
        f"worse, {counts['alone']} without one. Where the best of them is above our bound "
        f"({len(beatable)} cases) ours is better in {beatable.count('win')}."
    )


def _section(rows: Sequence[Row], standings: Sequence[str]) -> list[str]:
    experts = list(dict.fromkeys(name for row in rows for name in row["experts"]))
    peers = any(row["peers"] for row in rows)
    heads = ["placement", "devices × micro-batches", "F, B, W, transfer", "memory", "objective"]
    heads += ["work", *experts, "best expert"]
    heads += ["best peer"] if peers else []
    heads += ["ours", "bound", "bubble", "peak memory", "against the best", "s", "s to best"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " :-- |" * 5 + " --: |" * (len(heads) - 5)]
    for row, standing in zip(rows, standings, strict=True):
        lines.append("| " + " | ".join(_cells(row, standing, experts, peers=peers)) + " |")
    return lines


def _cells(row: Row, standing: str, experts: Sequence[str], *, peers: bool) -> list[str]:
    chunks = "" if row["chunks"] is None else f", {row['chunks']} chunks"
    half = "" if not row["freed_at_backward"] else f", {row['freed_at_backward']:g} freed at B"
    value, bound = row["value"], row["bound"]
    best = "" if row["rival_name"] is None else f" ({row['rival_name']})"
    expert = row.get("best_expert")
    cells = [
        f"{row['placement']}{chunks}",
        f"{row['stages']} × {row['micro_batches']}",
        ", ".join(_number(time) for time in row["times"]),
        f"{_number(row['memory'])}{half}",
        row["objective"],
        _number(row["work"]),
        *(_number(row["experts"].get(name)) for name in experts),
        DASH if expert is None else f"{_number(expert[1])} ({expert[0]})",
    ]
    if peers:
        peer = min(row["peers"], key=lambda entry: entry[1], default=None)
        cells.append(DASH if peer is None else f"{_number(peer[1])} ({peer[0]})")
    bubble = None if value is None else value - row["work"]
    cells += [
        f"**{_number(value)}**",
        f"{_number(bound)}{' proved' if row['proved'] else ''}",
        _number(bubble),
        _number(row["peak_memory"]),
        standing if standing in ("alone", "tie") else f"{standing}{best}",
        f"{row['seconds']:.1f}",
        DASH if row["seconds_to_best"] is None else f"{row['seconds_to_best']:.1f}",
    ]
    return cells


def _number(number: float | None) -> str:
    if number is None:
        return DASH
    return f"{number:,.6g}" if abs(number) < 10**6 else f"{number:,.0f}"
