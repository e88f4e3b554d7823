"""milp_plan beside a CP-SAT peer and list schedulers: same instances, seconds and threads.

The study is ``results/peers/study.toml``: ``milp-plan table results/peers``. The peer
(:mod:`cpsat`) runs in an environment of its own, ``.venv-peers``, which is made when it is first
needed. Each tool is a process of its own, one after the other; every plan is checked by
``milp-plan check``.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import constructions
import cpsat
import dispatch
import neighbourhoods
import reader
import schedule_model
from environment import ORTOOLS, peer_python

from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.io.suite_file import read_suite
from milp_plan.report.pages import amount, share
from milp_plan.study.tasks import document_of

ROOT = Path(__file__).resolve().parent.parent.parent
SUITES = ROOT / "instances" / "suites"
MILP_PLAN = (sys.executable, "-m", "milp_plan")
PEER = (constructions, cpsat, dispatch, neighbourhoods, reader, schedule_model)
"""Modules of the peer: a change of one of them is another measurement."""

LARGE = 200
"""Operators above which an instance counts as large."""

LEEWAY_S = 2.0
COLUMNS = 4
"""Panels beside each other in a figure."""

SCALE = (10**6, "ms")

Row = dict[str, Any]


def instance_file(name: str, folder: Path) -> Path:
    """Return the file of an instance: a path, or ``SUITE:NAME`` of a recipe, which is written."""
    suite, _, recipe = name.partition(":")
    if not recipe:
        return ROOT / os.path.expandvars(name)
    entries = read_suite(SUITES / f"{suite}.toml").entries
    entry = next(entry for entry in entries if entry.stem == recipe)
    path = folder / entry.path
    path.write_bytes(document_of(entry).data)
    return path


def measure(case: dict[str, Any]) -> Row:
    """Plan an instance by both tools."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = instance_file(case["file"], folder)
        ours, about = solve(file, case, folder)
        theirs = peer(Path(cpsat.__file__), file, case, folder)
    return {**about, "ours": ours, "peer": theirs}


def solve(file: Path, case: dict[str, Any], folder: Path) -> tuple[Row, Row]:
    """Run ``milp-plan solve``; return what it found, and what is known of the instance.

    A case may have ``options``, further words of the command line, and a ``program`` instead of
    ``milp-plan``.
    """
    plan = folder / "ours.json"
    options = ["--time-limit", case["limit"], "--threads", case["threads"], "--seed", case["seed"]]
    options += ["--record-folder", folder / "runs", "--plan-output", plan, "--json", "--quiet"]
    options += case.get("options", ())
    clock, before = Budget(), processor_s()
    done = _run([*case.get("program", MILP_PLAN), "solve", file, *options])
    wall_s, used_s = clock.elapsed_s, processor_s() - before
    if not done.stdout.strip():
        raise RuntimeError(f"no answer about {file.name}: {done.stderr.strip()[-2000:]}")
    told = json.loads(done.stdout.splitlines()[0])
    record = json.loads((ROOT / told["record_file"]).read_text())
    trace: list[tuple[float, int]] = []
    for point in record["trace"]:
        value = point["incumbent"]
        if value is not None and (not trace or value < trace[-1][1]):
            trace.append((point["seconds"], value))
    about = {
        "name": record["instance"],
        "operators": record["operators"],
        "devices": record["devices"],
        "bound": record["bound"],
        "bound_name": record["bound_name"],
        "baselines": record["baselines"],
        "stages": record.get("coarse_stages", []),
    }
    found = {
        "value": told["value"],
        "check": checked(file, plan) if told["value"] is not None else "no plan",
        "by": record["planner"],
        "wall_s": round(wall_s, 2),
        "processor_s": round(used_s, 2),
        "trace": trace,
        "stop": record["stop"],
    }
    return found, about


def peer(program: Path, file: Path, case: dict[str, Any], folder: Path) -> Row:
    """Run a peer, in the peers' environment; return what it found."""
    plan, python = folder / "peer.json", peer_python()
    options = ["--limit", case["limit"], "--workers", case["threads"], "--seed", case["seed"]]
    clock, before = Budget(), processor_s()
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    done = _run([python, program, file, *options, "--out", plan], own)
    wall_s, used_s = clock.elapsed_s, processor_s() - before
    if done.returncode:
        raise RuntimeError(f"the peer failed on {file.name}: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return {
        "value": told["value"],
        "bound": told["bound"],
        "check": checked(file, plan) if told["value"] is not None else "no plan",
        "by": told.get("by", told.get("unsupported")),
        "wall_s": round(wall_s, 2),
        "processor_s": round(used_s, 2),
        "trace": told.get("trace", []),
        "solved": told.get("solved", 0),
    }


def checked(file: Path, plan: Path) -> str:
    """What ``milp-plan check`` says of a plan."""
    done = _run([*MILP_PLAN, "check", file, plan, "--json"])
    return str(json.loads(done.stdout)["verdict"])


def processor_s() -> float:
    """Seconds of the processor that processes begun here have used, once they have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(
    command: Sequence[Any], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


# -- the page -------------------------------------------------------------------------------------


def less_by(ours: int | None, theirs: int | None) -> float | None:
    """(theirs - ours) / theirs; ``None`` where one of them has no plan."""
    return None if ours is None or theirs is None else (theirs - ours) / theirs


def better_by(row: Row) -> float | None:
    """How much less than the peer's our value is."""
    return less_by(row["ours"]["value"], row["peer"]["value"])


def present(rows: list[Row]) -> Row:
    """Add what the page shows of each row; return what it says of all."""
    for row in rows:
        ours, known = row["ours"]["value"], row.get("published", {}).get("value")
        values = {name: value for name, value in row["baselines"].items() if value is not None}
        lists = [value for name, value in values.items() if name.startswith("list_")]
        best = None if known is None else int(known)
        row["shown"] = {
            "ours": amount(ours, SCALE),
            "peer": amount(row["peer"]["value"], SCALE),
            "better": share(better_by(row)),
            "known": amount(best, SCALE),
            "to_known": share(None if best is None or ours is None else (best - ours) / best),
            "heft": amount(values.get("heft"), SCALE),
            "etf": amount(values.get("etf_memory"), SCALE),
            "lists": amount(min(lists, default=None), SCALE),
            "bound": amount(row["bound"], SCALE),
            "gap": share(None if not ours else (ours - row["bound"]) / ours),
            "checks": f"{row['ours']['check']}, {row['peer']['check']}",
        }
    compared = [row for row in rows if better_by(row) is not None]
    large = [better_by(row) or 0.0 for row in compared if row["operators"] > LARGE]
    return {
        "count": len(rows),
        "figures": ", ".join(f"[{part}](traces-{part}.png)" for part in _drawn(rows)),
        "better": sum((better_by(row) or 0) > 0 for row in compared),
        "equal": sum(better_by(row) == 0 for row in compared),
        "worse": sum((better_by(row) or 0) < 0 for row in compared),
        "large": len(large),
        "large_limit": LARGE,
        "median": share(median(large) if large else None),
        "ortools": ORTOOLS,
    }


def complaints(rows: list[Row]) -> list[str]:
    """Plans that fail the check, instances without a plan of ours, and limits that were overrun."""
    said = []
    for row in rows:
        where = f"{row['name']}, {row['limit']} s"
        for tool in ("ours", "peer"):
            if row[tool]["check"] not in ("ok", "no plan"):
                said.append(f"{where}: the plan of {tool} is {row[tool]['check']}")
            if row[tool]["wall_s"] > row["limit"] + LEEWAY_S:
                said.append(f"{where}: {tool} took {row[tool]['wall_s']} s")
        if (better_by(row) or 0) < 0:
            said.append(f"{where}: the peer is better by {share(-(better_by(row) or 0))}")
    return said


def figures(rows: list[Row]) -> dict[str, Any]:
    """Value against time, a panel for each instance, at the longest limit it was measured with."""
    return {f"traces-{part}.png": _panels(own) for part, own in _drawn(rows).items()}


def _drawn(rows: list[Row]) -> dict[str, list[Row]]:
    """Suite, or where instances are from -> one row for each instance."""
    longest: dict[str, Row] = {}
    for row in rows:
        if row["name"] not in longest or row["limit"] > longest[row["name"]]["limit"]:
            longest[row["name"]] = row
    parts: dict[str, list[Row]] = {}
    for row in longest.values():
        suite, _, recipe = row["file"].partition(":")
        parts.setdefault(suite if recipe else "shipped", []).append(row)
    return parts


def _panels(rows: list[Row]) -> Any:
    lines = math.ceil(len(rows) / COLUMNS)
    with drawing_style():
        figure = new_figure(3.0 * COLUMNS, 2.2 * lines + 0.6)
        every = figure.subplots(lines, COLUMNS, squeeze=False).flat
        for row, axes in zip(rows, every, strict=False):  # rows first: no panel more is taken
            for number, (tool, name) in enumerate((("ours", "milp_plan"), ("peer", "CP-SAT"))):
                trace = row[tool]["trace"]
                if not trace:
                    continue
                times = [*(moment for moment, _ in trace), row["limit"]]
                values = [*(value / SCALE[0] for _, value in trace), trace[-1][1] / SCALE[0]]
                axes.step(times, values, where="post", color=f"C{number}", label=name)
            axes.axhline(row["bound"] / SCALE[0], color="grey", linestyle=":", label="bound")
            axes.set_title(row["name"], fontsize=7)
            axes.set_xscale("log")
            plain_ticks(axes.xaxis)
            ends = [row[tool]["trace"][-1][1] for tool in ("ours", "peer") if row[tool]["trace"]]
            if ends:
                axes.set_ylim(top=1.3 * max(ends) / SCALE[0])
        for axes in list(every):
            axes.set_visible(False)
        figure.supxlabel("seconds")
        figure.supylabel(SCALE[1])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure
