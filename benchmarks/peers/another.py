"""Another author's program, compared with ``results/peers``: same instances and seconds.

``MILP_PLAN_PEER=/path/to/program.py milp-plan table results/another-peer``. The program runs in
the peers' environment, understands ``FILE --limit SECONDS --workers COUNT --seed NUMBER --out
PLAN`` and ends with a line of JSON that has ``value`` (``null`` without a plan) and ``bound``.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import study
from study import LARGE, LEEWAY_S, ROOT, SCALE, less_by

from milp_plan.report.pages import amount, share

VARIABLE = "MILP_PLAN_PEER"
KNOWN = ROOT / "results" / "peers" / "table.json"
SAME = ("file", "limit", "threads")
"""What a row shares with that of ``results/peers`` which stands beside it."""

Row = dict[str, Any]


def program() -> Path:
    """Return the program to measure."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).is_file():
        found = repr(named) if named else "not set"
        raise RuntimeError(
            f"{VARIABLE} is {found}, not a Python file; name the program to measure (its words: "
            "FILE --limit SECONDS --workers COUNT --seed NUMBER --out PLAN; last line JSON)"
        )
    return Path(named).absolute()


def digest(path: Path) -> str:
    """Return what tells this program from another: of all Python files of its folder."""
    content = hashlib.sha256()
    for part in sorted(path.parent.glob("*.py")):
        content.update(part.name.encode() + b"\0" + part.read_bytes())
    return content.hexdigest()[:12]


def measure(case: dict[str, Any]) -> Row:
    """Run the program on an instance."""
    path = program()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = study.instance_file(case["file"], folder)
        found = study.peer(path, file, case, folder)
    return {"program": f"{path.name} {digest(path)}", "other": found}


# -- the page -------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Put the values of ``results/peers`` beside each row; return what the page says of all."""
    known = {_same(row): row for row in json.loads(KNOWN.read_text())["rows"]}
    for row in rows:
        beside = known.get(_same(row), {})
        ours, peers = (beside.get(tool, {}).get("value") for tool in ("ours", "peer"))
        theirs = row["other"]["value"]
        row["name"] = beside.get("name", row["file"])
        row["operators"], row["devices"] = beside.get("operators"), beside.get("devices")
        row["better"], row["peer_better"] = less_by(ours, theirs), less_by(peers, theirs)
        row["shown"] = {
            "ours": amount(ours, SCALE),
            "peer": amount(peers, SCALE),
            "other": amount(theirs, SCALE),
            "better": share(row["better"]),
            "peer_better": share(row["peer_better"]),
        }
    compared = [row for row in rows if row["better"] is not None]
    large = [row for row in compared if row["operators"] > LARGE]
    generated = [row for row in large if ":" in row["file"]]
    return {
        "count": len(rows),
        "programs": ", ".join(sorted({row["program"] for row in rows})),
        "better": sum(row["better"] > 0 for row in compared),
        "equal": sum(row["better"] == 0 for row in compared),
        "worse": sum(row["better"] < 0 for row in compared),
        "none": len(rows) - len(compared),
        "weaker": sum((row["peer_better"] or 0) < 0 for row in rows),
        "large_limit": LARGE,
        "large": len(large),
        "median": _median(large),
        "generated": len(generated),
        "generated_median": _median(generated),
    }


def _median(rows: list[Row]) -> str:
    return share(median(row["better"] for row in rows) if rows else None)


def _same(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SAME)


def complaints(rows: list[Row]) -> list[str]:
    """Rows on which we or our own peer are worse, plans that fail the check, limits overrun."""
    said = []
    for row in rows:
        where, other = f"{row['name']}, {row['limit']} s", row["other"]
        if other["check"] not in ("ok", "no plan"):
            said.append(f"{where}: the program's plan is {other['check']}")
        if other["wall_s"] > row["limit"] + LEEWAY_S:
            said.append(f"{where}: the program took {other['wall_s']} s")
        if (row["better"] or 0) < 0:
            said.append(f"{where}: the program is better than milp_plan by {share(-row['better'])}")
        if (row["peer_better"] or 0) < 0:
            lead = share(-row["peer_better"])
            said.append(f"{where}: the program is better than our own peer by {lead}")
    return said
