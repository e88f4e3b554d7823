"""Paper tables as Markdown: one section per group of cases, every case, wins and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .pages import DASH, table

Row = Mapping[str, Any]

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
    standings: Sequence[tuple[str, str]],
    *,
    command: str,
    figure: str | None = None,
) -> str:
    """Return the table.

    Parameters
    ----------
    title, about
        Title and text above the table.
    rows, standings
        As ``milp_plan.study.paper`` makes them: data of each case; ours against the best expert and
        the best peer (``better``, ``equal``, ``worse`` or ``alone``).
    command
        Command that makes the table again.
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
    sources = dict.fromkeys((name, source) for row in rows for name, _, source in row["peers"])
    if sources:
        lines += ["", "Sources of the peers' values:", ""]
        lines += [f"- {name}: {source}" for name, source in sources]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row], standings: Sequence[tuple[str, str]]) -> str:
    proved = sum(bool(row["proved"]) for row in rows)
    checked = sum(row["verdict"] == "ok" for row in rows)
    sentences = [f"{len(rows)} cases: {checked} plans pass the check, {proved} are proved optimal."]
    for place, (rival, key) in enumerate((("expert", "best_expert"), ("peer", "best_peer"))):
        ours = [standing[place] for standing in standings]
        if all(standing == "alone" for standing in ours):
            continue
        counts = ", ".join(f"{ours.count(word)} {word}" for word in ("better", "equal", "worse"))
        above = [
            standing
            for row, standing in zip(rows, ours, strict=True)
            if row[key] is not None and row["bound"] is not None and row[key][1] > row["bound"]
        ]
        sentences.append(
            f"Against the best {rival}: {counts}; where it is above our bound ({len(above)} "
            f"cases), ours is better in {above.count('better')}."
        )
    return " ".join(sentences)


def _section(rows: Sequence[Row], standings: Sequence[tuple[str, str]]) -> list[str]:
    experts = list(dict.fromkeys(name for row in rows for name in row["experts"]))
    peers = any(row["peers"] for row in rows)
    heads = ["placement", "devices × micro-batches", "F, B, W, transfer", "memory", "objective"]
    heads += ["work", *experts, "best expert"]
    heads += ["best peer"] if peers else []
    heads += ["ours", "bound", "bubble", "peak memory", "against expert"]
    heads += ["against peer"] if peers else []
    heads += ["s", "s to best"]
    cells = (
        _cells(row, standing, experts, peers=peers)
        for row, standing in zip(rows, standings, strict=True)
    )
    return table(heads, cells, 5).splitlines()


def _cells(
    row: Row, standing: tuple[str, str], experts: Sequence[str], *, peers: bool
) -> list[str]:
    chunks = "" if row["chunks"] is None else f", {row['chunks']} chunks"
    half = "" if not row["freed_at_backward"] else f", {row['freed_at_backward']:g} freed at B"
    value = row["value"]
    bubble = None if value is None else value - row["work"]
    cells = [
        f"{row['placement']}{chunks}",
        f"{row['stages']} × {row['micro_batches']}",
        ", ".join(_number(time) for time in row["times"]),
        f"{_number(row['memory'])}{half}",
        row["objective"],
        _number(row["work"]),
        *(_number(row["experts"].get(name)) for name in experts),
        _rival(row["best_expert"]),
    ]
    cells += [_rival(row["best_peer"])] if peers else []
    cells += [
        f"**{_number(value)}**",
        f"{_number(row['bound'])}{' proved' if row['proved'] else ''}",
        _number(bubble),
        _number(row["peak_memory"]),
        standing[0],
    ]
    cells += [standing[1]] if peers else []
    return [*cells, f"{row['seconds']:.1f}", _seconds(row["seconds_to_best"])]


def _rival(entry: Sequence[Any] | None) -> str:
    return DASH if entry is None else f"{_number(entry[1])} ({entry[0]})"


def _seconds(number: float | None) -> str:
    return DASH if number is None else f"{number:.1f}"


def _number(number: float | None) -> str:
    if number is None:
        return DASH
    return f"{number:,.6g}" if abs(number) < 10**6 else f"{number:,.0f}"
