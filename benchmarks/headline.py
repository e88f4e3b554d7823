"""Write the headline table of the README from ``results/overview.json``.

``python benchmarks/headline.py`` rewrites what stands between the two comments in ``README.md``;
``--check`` only says whether it is current (exit code 1 if not).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START = "<!-- headline: written by benchmarks/headline.py from results/overview.json -->"
END = "<!-- end of headline -->"
DASH = "—"


def headline(overview: dict[str, Any], suite: str = "shipped") -> str:
    """Markdown table of one suite: value against the best baseline, gap to the proven bound."""
    rows = overview["suites"][suite]["rows"]
    lines = [
        "| instance | operators | best baseline | milp_plan | better by | gap to bound |",
        "| :--- | ---: | ---: | ---: | ---: | ---: |",
    ]
    gaps = []
    for row in rows:
        value, baseline, gap = row["value"], row["best_baseline"], row["gap"]
        if gap is not None:
            gaps.append(gap)
        better = DASH if value is None or not baseline else f"{(baseline - value) / baseline:.1%}"
        closed = DASH if gap is None else "optimal" if _proved(row) else f"{gap:.1%}"
        cells = [
            row["instance"],
            f"{row['operators']:,}",
            _milliseconds(baseline),
            _milliseconds(value),
            better,
            closed,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    seconds = max((row["seconds"] for row in rows if row["seconds"] is not None), default=0)
    lines += [
        "",
        f"Makespan of a step, {len(rows)} shipped instances, two at a time on two cores, "
        f"at most {seconds:.0f} s each. Baseline: the best of all list schedulers and other "
        "heuristics; a dash where a plan was proved before any of them ran. Every plan is checked; "
        "bounds hold for the original problem. Median gap, proved ones included, "
        f"{median(gaps):.1%}; proved optimal: {sum(_proved(row) for row in rows)}.",
    ]
    return "\n".join(lines)


def _proved(row: dict[str, Any]) -> bool:
    return row["stop"] == "proved"


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
    overview = json.loads((ROOT / "results" / "overview.json").read_text(encoding="utf-8"))
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    wanted = with_headline(readme, headline(overview))
    if given.check:
        return int(wanted != readme)
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
