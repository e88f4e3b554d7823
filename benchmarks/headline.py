"""Write the headline table of the README from ``results/peers/table.json``.

``python benchmarks/headline.py`` rewrites what stands between the two comments in ``README.md``;
``--check`` only says whether it is current (exit code 1 if not).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START = "<!-- headline: written by benchmarks/headline.py from results/peers/table.json -->"
END = "<!-- end of headline -->"
DASH = "—"
MANY, LIMIT = 200, 60
"""Operators above which a row is shown, and seconds of its run."""


def headline(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table: shipped instances of many operators, our value beside the peers'."""
    shown = [row for row in rows if _shipped(row) and row["operators"] > MANY]
    lines = [
        "| instance | operators | best baseline | CP-SAT | milp_plan | gap to bound |",
        "| :--- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in shown:
        cells = [
            row["name"],
            f"{row['operators']:,}",
            _milliseconds(_best_baseline(row)),
            _milliseconds(row["peer"]["value"]),
            _milliseconds(row["ours"]["value"]),
            "optimal" if not _gap(row) else f"{_gap(row):.1%}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    many = [row for row in rows if row["operators"] > MANY and row["limit"] == LIMIT]
    better = [row for row in many if row["ours"]["value"] < row["peer"]["value"]]
    worse = [row for row in many if row["ours"]["value"] > row["peer"]["value"]]
    lines += [
        "",
        f"Makespan of a step on the shipped instances of more than {MANY} operators, "
        f"{shown[0]['limit']} s and {shown[0]['threads']} threads each, every plan checked. CP-SAT "
        "is a program of this project with the same time limit; a dash: no baseline was run. Of "
        f"{len(many)} graphs of this size milp_plan is better on {len(better)} and worse on "
        f"{len(worse)}: "
        "[results/peers](results/peers/table.md).",
    ]
    return "\n".join(lines)


def _shipped(row: dict[str, Any]) -> bool:
    return str(row["file"]).startswith("instances/") and row["limit"] == LIMIT


def _best_baseline(row: dict[str, Any]) -> int | None:
    return min(filter(None, row["baselines"].values()), default=None)


def _gap(row: dict[str, Any]) -> float:
    return float((row["ours"]["value"] - row["bound"]) / row["ours"]["value"])


def _milliseconds(ticks: int | None) -> str:
    return DASH if ticks is None else f"{ticks / 1e6:,.3f} ms"


def with_headline(readme: str, table: str) -> str:
    """Put the table between the two comments.

    Raises
    ------
    ValueError
        The comments are not there.
    """
    before, _, rest = readme.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"README.md: found no {START!r} ... {END!r}; put them back")
    return f"{before}{START}\n{table}\n{END}{after}"


def main() -> int:
    """Rewrite or check the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    given = parser.parse_args()
    table = json.loads((ROOT / "results" / "peers" / "table.json").read_text(encoding="utf-8"))
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    wanted = with_headline(readme, headline(table["rows"]))
    if given.check:
        return int(wanted != readme)
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
