"""The contest on intra-operator parallelism: every instance at the contest's own time limit.

Needs the contest's files in ``$MILP_PLAN_BENCHMARKS/iopddl`` (``milp-plan data get iopddl``). Each
run is the command ``milp-plan solve FILE --time-limit LIMIT``: seconds and peak memory are those of
its whole process, reading and checking included; the solution it writes is read and checked again.

The study is ``results/paper/iopddl/study.toml``: ``milp-plan table results/paper/iopddl``. What is
known from the contest is in ``published.csv`` beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milp_plan.io.public_data import VARIABLE

FILE = "asplos-2025-iopddl-{}.json.gz"
PROGRAM = [sys.executable, "-m", "milp_plan"]
RIVALS = ("xla", "winner_two_cores", "contest_best", "later_best")

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Run the command in a process of its own, and check what it has written."""
    path = Path(os.environ.get(VARIABLE, "."), "iopddl", FILE.format(case["instance"]))
    return run(path, case["limit_s"], case["gap_asked"])


def run(path: Path, limit_s: float, gap: float) -> Row:
    """Solve a file by the command."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        solution = folder / "solution.json"
        words = ["solve", str(path), "--time-limit", f"{limit_s:g}", "--gap", f"{gap:g}", "--json"]
        words += ["--quiet", "--record-folder", str(folder), "--solution", str(solution)]
        with (folder / "said.json").open("wb") as said:
            began = time.perf_counter()
            process = subprocess.Popen([*PROGRAM, *words], stdout=said)
            try:
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            finally:
                process.kill()  # where this process is interrupted
            took = time.perf_counter() - began
        told = json.loads((folder / "said.json").read_text(encoding="utf-8"))
        record = json.loads(Path(told["record_file"]).read_text(encoding="utf-8"))
        checked = solution.exists() and _checked(path, solution) == record["value"]
    searching = (item for item in record["trace"] if item["phase"] not in {"reducing", "reading"})
    return {
        **{key: record[key] for key in ("operators", "edges", "strategies")},
        "rows_before": record["reduction"][0][5],
        **{f"{key}_left": record[f"{key}_left"] for key in ("operators", "edges", "strategies")},
        "rows_left": record["rows_left"],
        "cost": record["value"],
        **{key: record[key] for key in ("bound", "gap", "proved")},
        "checked": checked,
        "seconds": took,
        "reading_and_reducing_s": next((item["seconds"] for item in searching), record["seconds"]),
        "peak_mib": used.ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10),
    }


def _checked(path: Path, solution: Path) -> int | None:
    """Cost of a solution by ``milp-plan check``, ``None`` if it is not a plan.

    Another process: what this one holds would count as peak memory of those it starts.
    """
    words = [*PROGRAM, "check", str(path), str(solution), "--json"]
    said = subprocess.run(words, capture_output=True, check=False, text=True)
    told = json.loads(said.stdout)
    return int(told["value"]) if said.returncode == 0 and told["verdict"] == "ok" else None


def present(rows: list[Row]) -> Row:
    """Compare with what is published, and add what the page says in words."""
    for row in rows:
        row["known"] = {name: _whole(row["published"].get(name)) for name in RIVALS}
        best = min((row["known"][name] for name in RIVALS[2:] if row["known"][name]), default=None)
        row["change"] = row["cost"] / best - 1 if best and row["cost"] is not None else None
        row["proof"] = "proved optimal" if row["proved"] else None
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    return {
        "median": statistics.median(gaps) if gaps else None,
        "gap": rows[0]["gap_asked"],
        "instances": len(rows),
        "winner": _ahead(rows, "winner_two_cores"),
        "contest": _ahead(rows, "contest_best"),
        "later": _ahead(rows, "later_best"),
        "below": _ahead(rows, "later_best", strictly=True),
    }


def _ahead(rows: list[Row], rival: str, *, strictly: bool = False) -> int:
    """Count rows whose cost is at most, or below, that of a rival."""
    pairs = [(row["cost"], row["known"][rival]) for row in rows if row["cost"] is not None]
    return sum(own < known or (own == known and not strictly) for own, known in pairs if known)


def _whole(text: str | None) -> int | None:
    return int(text) if text else None


def complaints(rows: list[Row]) -> list[str]:
    """Instances whose solution fails the check."""
    return [f"{row['instance']}: the solution is no plan" for row in rows if not row["checked"]]
