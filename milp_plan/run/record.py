"""The record of a run: plain data that says what was asked, found, and with what."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from milp_plan import __version__
from milp_plan.io import plan_to_json, write_document
from milp_plan.models.registry import Found

from .settings import Clock, Outcome, Progress, Settings

RECORD_VERSION = 1
LONGEST_NAME = 100
"""Characters of an instance's name that stand in a key."""
PACKAGES = ("pyomo", "highspy", "numpy", "scipy", "networkx", "pandas")


def versions() -> dict[str, str | None]:
    """Versions of this package, of Python and of what it solves with."""
    found: dict[str, str | None] = {"milp_plan": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def make_record(
    outcome: Outcome,
    settings: Settings,
    found: Found,
    clock: Clock,
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Gather a run into plain data.

    ``details`` holds the run's ``coarsening``, ``answer``, ``search``, ``bounds`` and ``trace``
    (``None`` or empty where a stage was not reached) and ``disputed_because``.
    """
    known = {name: value for name, value in outcome.baselines.items() if value is not None}
    best = min(known, key=lambda name: known[name], default=None)
    graph = outcome.problem.graph
    return {
        "record": RECORD_VERSION,
        "key": run_key(outcome, settings, found),
        "instance": outcome.problem.name,
        "fingerprint": outcome.problem.fingerprint,
        "objective": str(outcome.problem.objective),
        "units": {
            "time": outcome.problem.units.time,
            "size": outcome.problem.units.size,
            "time_scale": outcome.problem.units.time_scale,
        },
        "operators": len(graph.operators),
        "values": len(graph.values),
        "devices": len(outcome.problem.cluster.devices),
        "value": outcome.value,
        "bound": outcome.bound,
        "bound_name": outcome.bound_name,
        "gap": outcome.gap,
        "gap_asked": settings.gap,
        "proved": outcome.proved,
        "stop": str(outcome.stop),
        "verdict": _verdict(outcome),
        "disputed_because": details["disputed_because"] or None,
        "infeasible_because": outcome.infeasible_because,
        "planner": outcome.planner or None,
        "baselines": dict(outcome.baselines),
        "best_baseline": known[best] if best is not None else None,
        "baseline_name": best,
        "bounds": {bound.name: bound.value for bound in details["bounds"]},
        "seconds": round(outcome.seconds, 3),
        "phases": {name: round(seconds, 4) for name, seconds in clock.phases.items()},
        "formulation": {"name": found.name, "sha256": found.file_hash},
        "settings": {
            "time_limit_s": settings.time_limit_s,
            "node_limit": settings.node_limit,
            "rounds": settings.rounds,
            "seed": settings.seed,
            "threads": settings.threads,
            "target": settings.target,
            "options": dict(settings.options),
            "solver": settings.solver,
        },
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
        **_coarsening(details["coarsening"]),
        **_model(details["answer"]),
        **_search(details["search"]),
        "trace": [_point(point) for point in details["trace"]],
    }


def run_key(outcome: Outcome, settings: Settings, found: Found) -> str:
    """Content key of a run: same problem, same settings, same formulation file, same key."""
    content = [
        outcome.problem.fingerprint,
        found.name,
        found.file_hash,
        None if settings.start is None else plan_to_json(settings.start).decode(),
        settings.time_limit_s,
        settings.node_limit,
        settings.rounds,
        settings.gap,
        settings.seed,
        settings.threads,
        settings.target,
        sorted(settings.options.items()),
        settings.solver,
        versions(),
    ]
    digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
    name = re.sub(r"[^\w.+-]", "_", outcome.problem.name)  # it becomes the name of a file
    return f"{name[:LONGEST_NAME]}-{digest[:12]}"


def _verdict(outcome: Outcome) -> str:
    if outcome.disputed:
        return "DISPUTED"
    if outcome.verdict is None:
        return "no plan"
    return "ok" if outcome.verdict.ok else "violated"


def _coarsening(coarsening: Any) -> dict[str, Any]:
    if coarsening is None:
        return {"coarse_operators": None, "coarsening": [], "coarsening_exact": None}
    rows = [row._asdict() for row in coarsening.table()]
    return {
        "coarse_operators": len(coarsening.problem.graph.operators),
        "coarsening": rows,
        "coarsening_exact": coarsening.exact,
    }


def _model(answer: Any) -> dict[str, Any]:
    if answer is None:
        return {"model_hash": None, "model": None}
    report = answer.report
    return {
        "model_hash": answer.model_hash,
        "model": {
            "columns": answer.columns,
            "rows": answer.rows,
            "stop": str(report.stop),
            "message": report.message,
            "value": answer.value,
            "bound": answer.bound,
            "nodes": report.nodes,
            "gap": report.gap,
            "start_accepted": report.start_accepted,
        },
    }


def _search(search: Any) -> dict[str, Any]:
    if search is None:
        return {"polish": None}
    return {
        "polish": {
            "rounds": search.rounds,
            "improvements": dict(search.improvements),
            "disputes": list(search.disputes),
            "failures": list(search.failures),
        }
    }


def _point(point: Progress) -> dict[str, Any]:
    return {
        "seconds": round(point.elapsed_s, 3),
        "phase": point.phase,
        "incumbent": point.incumbent,
        "bound": point.bound,
        "note": point.note,
    }


def record_files(outcome: Outcome, folder: Path) -> dict[str, tuple[Path, bytes]]:
    """Return the files of a run and their contents: ``record_file``, and ``plan_file`` if any."""
    path = folder / f"{outcome.record['key']}.json"
    files = {"record_file": (path, json.dumps(outcome.record, indent=1).encode() + b"\n")}
    if outcome.plan is not None:
        files["plan_file"] = (path.with_suffix(".plan.json"), plan_to_json(outcome.plan))
    return files


def write_record(outcome: Outcome, folder: Path = Path("results/runs")) -> Path:
    """Write ``<key>.json``, and the plan beside it as ``<key>.plan.json``; return the former."""
    folder.mkdir(parents=True, exist_ok=True)
    files = record_files(outcome, folder)
    for path, data in files.values():
        write_document(path, data)
    return files["record_file"][0]
