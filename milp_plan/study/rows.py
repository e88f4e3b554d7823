"""The results of a suite in the store, one row of plain data per run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from milp_plan.io.known_file import KnownValue, KnownValues

from .store import Record, Store
from .tasks import Expansion, Missing, Task

Row = dict[str, Any]

NOT_RUN, ABSENT, BAD = "not run", "absent", "bad"
"""Status of a run without a record in the store, and of instances that cannot be run."""

COLUMNS = (
    "file",
    "instance",
    "variation",
    "planner",
    "seed",
    "status",
    "kind",
    "objective",
    "contiguous",
    "separate_passes",
    "calls",
    "time_limit_s",
    "threads",
    "gap_asked",
    "value",
    "value_float",
    "bound",
    "bound_float",
    "added_time_percent",
    "added_time_percent_bound",
    "unit",
    "gap",
    "proved",
    "stop",
    "verdict",
    "found_by",
    "bound_name",
    "seconds",
    "seconds_to_best",
    "wall_s",
    "attempts",
    "host",
    "operators",
    "values",
    "devices",
    "infeasible_because",
    "error",
    "key",
    "time_scale",
)
"""Columns of a collected suite; ``phase NAME`` in seconds follow. ``value`` and ``bound`` are
exact ticks (bytes for peak_memory) as text, since they may exceed 64 bits; ``value_float`` and
``bound_float`` are in ``unit``, that of the instance's file."""

LAWS = ("contiguous", "separate_passes", "calls")
"""Members that identify a problem in addition to its objective; not every kind has them."""

INTEGERS = ("seed", "calls", "threads", "attempts", "operators", "values", "devices")
FLOATS = (
    "time_limit_s",
    "gap_asked",
    "value_float",
    "bound_float",
    "added_time_percent",
    "added_time_percent_bound",
    "gap",
    "seconds",
    "seconds_to_best",
    "wall_s",
)
BOOLEANS = ("contiguous", "separate_passes", "proved")


def rows_of(expansion: Expansion, store: Store) -> list[Row]:
    """Return a row per run of a suite, and per instance that cannot be run, in suite order."""
    rows = [row_of(task, store.load(task.key)) for task in expansion.tasks]
    rows += [_missing(entry) for entry in expansion.missing]
    order = {entry.label: place for place, entry in enumerate(expansion.suite.entries)}
    return sorted(rows, key=lambda row: order[row["file"]])


def row_of(task: Task, record: Record | None) -> Row:
    """Return the row of a run."""
    about = task.about
    scale = about["ticks_per_unit"]
    row: Row = dict.fromkeys(COLUMNS)
    row |= {
        "file": about["file"],
        "instance": about["instance"],
        "variation": about["variation"],
        "planner": about["who"],
        "status": NOT_RUN,
        "unit": about["unit"],
        "time_scale": str(scale),
        "gap_asked": task.asked["gap"],
        "key": task.key,
    }
    for name in ("seed", "time_limit_s", "threads"):
        row[name] = task.asked[name]
    for name in ("kind", "objective", *LAWS, "operators", "values", "devices"):
        row[name] = about.get(name)
    if record is None:
        return row
    row |= {"status": record["status"], "attempts": record["attempts"], "error": record["error"]}
    worker = record.get("worker") or {}
    row |= {"wall_s": record.get("wall_s"), "host": worker.get("dask") or worker.get("host")}
    outcome = record["outcome"]
    return row if outcome is None else row | _result(outcome, scale)


def _result(outcome: Mapping[str, Any], scale: int) -> Row:
    names = ("gap", "proved", "stop", "verdict", "bound_name", "seconds", "infeasible_because")
    row: Row = {name: outcome[name] for name in names}
    row["found_by"] = outcome["planner"]
    for name in ("added_time_percent", "added_time_percent_bound"):
        row[name] = outcome.get(name)  # only one kind has them
    for name in ("value", "bound"):
        number = outcome[name]
        row[name] = None if number is None else str(number)
        row[f"{name}_float"] = None if number is None else float(Fraction(number, scale))
    row["seconds_to_best"] = seconds_to_best(outcome)
    phases = {f"phase {name}": seconds for name, seconds in outcome["phases"].items()}
    return row | phases


def seconds_to_best(outcome: Mapping[str, Any]) -> float | None:
    """Return the seconds until the best plan was found."""
    value = outcome["value"]
    points = [point["seconds"] for point in outcome["trace"] if point["incumbent"] == value]
    return float(points[0]) if points and value is not None else None


def _missing(entry: Missing) -> Row:
    row: Row = dict.fromkeys(COLUMNS)
    return row | {
        "file": entry.label,
        "variation": entry.variation,
        "planner": "",
        "status": ABSENT if entry.reason.startswith(f"{ABSENT}:") else BAD,
        "error": entry.reason,
    }


# -- against what is known -------------------------------------------------------------------------


def against_known(rows: Iterable[Row], known: KnownValues) -> tuple[list[str], list[str]]:
    """Compare rows with known values.

    Returns
    -------
    better, contradictions
        Sentences on plans that beat a value not proved optimal; and on plans or bounds that
        cannot be if what is known is true.
    """
    better: list[str] = []
    wrong: list[str] = []
    for row in rows:
        case = (row["instance"], row["objective"], *_laws(row))
        for entry in known.of(case):
            _compare(row, entry, better, wrong)
    return better, wrong


def _laws(row: Row) -> tuple[bool, bool, int | None]:
    return bool(row["contiguous"]), bool(row["separate_passes"]), row["calls"]


def _compare(row: Row, entry: KnownValue, better: list[str], wrong: list[str]) -> None:
    scale = int(row["time_scale"])
    low, high = entry.range(scale)
    name = ", ".join(text for text in (row["instance"], row["variation"], row["planner"]) if text)
    kind = "proved optimal" if entry.certain else "known"
    figure = f"{entry.optimum} ticks" if entry.value is None else f"{entry.value}"
    they = f"{figure} ({kind}; {entry.source})"
    if row["value"] is not None and row["verdict"] == "ok" and int(row["value"]) < low:
        text = f"{name}: value {row['value_float']:.9g} is below {they}"
        (wrong if entry.certain else better).append(text)
    if row["bound"] is not None and int(row["bound"]) > high:
        wrong.append(f"{name}: bound {row['bound_float']:.9g} is above {they}")
    if row["infeasible_because"] is not None:
        wrong.append(f"{name}: reported to have no plan, but one of value {they} is known")
