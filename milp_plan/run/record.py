"""The record of a run: its problem, settings, results and versions as plain data."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping
from math import isinf
from pathlib import Path
from typing import Any, TypeVar

from milp_plan.backends import Stop
from milp_plan.io.files import write_document

from .change import changes_to_text
from .identity import installed
from .key import file_name, run_key
from .ledger import Ledger
from .outcome import Outcome
from .scope import scope_of_run
from .settings import AUTO, Progress, Settings

P = TypeVar("P")
S = TypeVar("S")

RECORD_VERSION = 2


def outcome_of(ledger: Ledger[P, S]) -> Outcome[P, S]:
    """Return the outcome of a run, with its record."""
    kind, problem, plan = ledger.kind, ledger.problem, ledger.plan
    if plan is not None and ledger.value is not None:
        plan = kind.claimed(problem, plan, ledger.value, ledger.planner)
    outcome: Outcome[P, S] = Outcome(
        kind=kind,
        problem=problem,
        plan=plan,
        verdict=ledger.verdict,
        value=ledger.value,
        bound=ledger.lower,
        bound_name=None if ledger.bound is None else ledger.bound.name,
        gap=ledger.gap,
        stop=ledger.stop_reason(),
        proved=ledger.proved and not ledger.disputed,
        disputed_reason=ledger.disputed,
        infeasible_reason=ledger.infeasible_reason,
        unproved_reason=ledger.unproved_reason,
        baselines=dict(ledger.baselines),
        bounds=ledger.bounds,
        defects=tuple(ledger.defects),
        planner=ledger.planner,
        seconds=ledger.budget.elapsed_s,
        scope=scope_of_run(ledger),
        record={},
        disputed_model=ledger.disputed_model,
    )
    outcome.record.update(_record(outcome, ledger))
    return outcome


def settings_data(settings: Settings, plan_text: bytes | None = None) -> dict[str, Any]:
    """Return settings as plain data, with the start as the text of its file."""
    data = {entry.name: getattr(settings, entry.name) for entry in dataclasses.fields(settings)}
    data["options"] = dict(settings.options)
    data["hints"] = len(settings.hints)
    data["start"] = None if plan_text is None else plan_text.decode()
    return data


def _record(outcome: Outcome[P, S], ledger: Ledger[P, S]) -> dict[str, Any]:
    problem: Any = outcome.problem
    settings, measure = ledger.settings, outcome.measure
    start = None if settings.start is None else outcome.kind.plan_text(settings.start)
    data = settings_data(settings, start) | {"threads": ledger.threads}
    endless = isinf(settings.time_limit_s)  # JSON has no number for it
    solver = ledger.formulation
    found = None if solver is None else solver.found
    hashed = None if found is None else found.file_hash
    named = data["formulation"] if found is None else found.name  # wherever its file lies
    key = run_key(problem.name, problem.fingerprint, data | {"formulation": named}, hashed)
    known = {name: value for name, value in outcome.baselines.items() if value is not None}
    best = min(known, key=lambda name: known[name], default=None)
    return {
        "record": RECORD_VERSION,
        "key": file_name(problem.name, key),
        "kind": outcome.kind.name,
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": measure.objective,
        "unit": measure.unit,
        "ticks_per_unit": measure.per_unit,
        "scope": str(outcome.scope),
        **outcome.kind.summary(outcome.problem),
        "value": outcome.value,
        "bound": outcome.bound,
        "bound_name": outcome.bound_name,
        "value_in_unit": measure.decimal(outcome.value),
        "bound_in_unit": measure.decimal(outcome.bound),
        **outcome.kind.figures(outcome.problem, outcome.value, outcome.bound),
        "gap": outcome.gap,
        "gap_asked": settings.gap,
        "proved": outcome.proved,
        "stop": str(outcome.stop),
        "verdict": verdict_word(outcome),
        "disputed_because": outcome.disputed_reason or None,
        "infeasible_because": outcome.infeasible_reason,
        "unproved_because": outcome.unproved_reason or None,
        "defects": list(outcome.defects),
        "planner": outcome.planner or None,
        "reached": dict(ledger.reached),
        "baselines": dict(outcome.baselines),
        "best_baseline": None if best is None else known[best],
        "baseline_name": best,
        "bounds": {bound.name: bound.value for bound in outcome.bounds},
        "seconds": round(outcome.seconds, 3),
        "phases": _rounded(ledger.budget.phases),
        "shares": _rounded(ledger.budget.shares),
        "formulation": {"name": named, "sha256": hashed} if ledger.asked else None,
        "not_asked": _not_asked(outcome, ledger, named),
        "settings": data
        | {"start": start is not None, "time_limit_s": None if endless else settings.time_limit_s},
        "versions": installed(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "model_hash": None,
        "model": None,
        "window_search": None,
        "start": None,
        "startless": None,
        **ledger.details,
        "trace": [_point(point) for point in ledger.trace],
    }


def _not_asked(outcome: Outcome[P, S], ledger: Ledger[P, S], name: str) -> str | None:
    """Return why the formulation that the settings name was not asked; ``None`` if it was."""
    if ledger.asked or ledger.settings.formulation == AUTO:
        return None
    settled = outcome.proved or outcome.infeasible_reason is not None
    return f"{name}: not asked ({'proved before' if settled else 'the run ended before'})"


def _rounded(seconds: Mapping[str, float]) -> dict[str, float | None]:
    return {
        name: None if entry == float("inf") else round(entry, 4) for name, entry in seconds.items()
    }


def verdict_word(outcome: Outcome[P, S]) -> str:
    """Return the checker's verdict in a word."""
    if outcome.disputed:
        return "DISPUTED"
    if outcome.verdict is None:
        return "no plan"
    return "ok" if outcome.verdict.ok else "violated"


def _point(point: Progress) -> dict[str, Any]:
    return {
        "seconds": round(point.elapsed_s, 3),
        "phase": point.phase,
        "incumbent": point.incumbent,
        "bound": point.bound,
        "note": point.note,
    }


def instance_reference(instance: Path, changes: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return an instance's path, relative to a folder of records, and its changes."""
    path = instance if instance.is_absolute() else Path(os.path.relpath(instance, folder))
    return {"instance_file": str(path), "changes": changes_to_text(changes)}


def record_files(outcome: Outcome[P, S], folder: Path) -> dict[str, tuple[Path, bytes]]:
    """Return the files of a run and their contents: ``record_file``, and ``plan_file`` if any.

    ``model_file`` has the model on which checker and solver disagree, if any, for other solvers.
    """
    path = folder / f"{outcome.record['key']}.json"
    text = json.dumps(outcome.record, indent=1, default=_plain, allow_nan=False).encode() + b"\n"
    files = {"record_file": (path, text)}
    if outcome.plan is not None:
        files["plan_file"] = (path.with_suffix(".plan.json"), outcome.kind.plan_text(outcome.plan))
    if outcome.disputed_model is not None:
        from milp_plan.backends.export import model_parts

        model = b"".join(model_parts(outcome.disputed_model, "mps"))
        files["model_file"] = (path.with_suffix(".mps"), model)
    return files


def write_record(outcome: Outcome[P, S], folder: Path = Path("results/runs")) -> Path:
    """Write ``<key>.json`` and the plan as ``<key>.plan.json``; return the path of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    files = record_files(outcome, folder)
    for path, data in files.values():
        write_document(path, data)
    return files["record_file"][0]


def _plain(item: object) -> object:
    if isinstance(item, Stop):
        return str(item)
    if hasattr(item, "item"):  # a NumPy scalar
        return item.item()
    raise TypeError(type(item).__name__)
