"""What memory costs: the value of the best plan as every device's memory shrinks step by step.

100 % is what the best plan found without any limit needs: the highest peak of any device. From
there the limit of every device falls in steps of a tenth, through the limit of the file if that
is lower, until it is proved that no plan fits. A plan for a tighter limit is valid under every
looser one, and a bound for a looser limit holds under every tighter one, so both are carried
over, the plan after a check on the problem it is carried to; the column "from" says where a plan
was found.

``python benchmarks/memory_sweep.py`` writes ``results/memory_sweep.md``, ``.csv`` and a figure
per instance; ``--resume`` reuses records in ``results/runs``.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pages import amount, amount_scale, provenance, share, table, text
from runs import RECORDS, Record, Reuse, recorded_solve, without_folders
from suites import REPOSITORY

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.draw import write_figure
from milp_plan.io import read
from milp_plan.report import MemoryPoint, memory_sweep
from milp_plan.run import Settings

INSTANCES = REPOSITORY / "instances"
CHOSEN = (
    "gpt-tiny-training-2xA100",
    "unet-inference-2xH100",
    "resnet50-inference-2xA100",
    "unet-training-4xA100",
    "moe-mini-training-8xA100",
)
"""Several limits lie between the reference and the proof that nothing fits."""

STEPS = 10
"""Steps from the reference down to nothing."""

CSV_HEADINGS = (
    "instance",
    "limit_percent",
    "limit_bytes",
    "value",
    "found_at_percent",
    "bound",
    "bound_name",
    "proved_infeasible",
    "error",
)


@dataclass
class Point:
    """One limit of one instance.

    Parameters
    ----------
    instance, percent, limit_bytes
        Limit of every device, in percent of the reference and in bytes.
    problem
        The instance under this limit.
    record, error
        Of the run under this limit; either may be missing.
    plan, value, origin
        Best plan that passes the check here, and the percentage it was found at (``None``: found
        without limits).
    bound, bound_name
        Best bound that holds here.
    infeasible
        The proof that there is no plan, in words.
    """

    instance: str
    percent: int
    limit_bytes: int
    problem: PlanningProblem
    record: Record | None = None
    error: str = ""
    plan: Plan | None = None
    value: int | None = None
    origin: int | None = None
    bound: int | None = None
    bound_name: str = ""
    infeasible: str = ""


def limited(problem: PlanningProblem, memory_bytes: int | None) -> PlanningProblem:
    """Return the problem with this limit on every device; ``None`` means without."""
    limits = dict.fromkeys(problem.cluster.device_names, memory_bytes)
    return replace(problem, cluster=problem.cluster.with_memory(limits))


def reference(problem: PlanningProblem, free_plan: Plan) -> int:
    """Bytes of every device at which the sweep starts: the highest peak of any of them."""
    return verify(limited(problem, None), free_plan).components["peak_memory"]


def sweep(
    problem: PlanningProblem, settings: Settings, folder: Path, reuse: Reuse
) -> tuple[Record, list[Point]]:
    """Record of the run without limits, and the points from loose to tight.

    Raises
    ------
    RuntimeError
        There is no plan even without limits.
    """
    record, free_plan = recorded_solve(limited(problem, None), settings, folder, reuse)
    if free_plan is None:
        raise RuntimeError(
            f"no plan without limits: {record['infeasible_because'] or 'none found'}"
        )
    start = reference(problem, free_plan)
    points: list[Point] = []
    for step in range(STEPS, 0, -1):
        limit = start * step // STEPS
        point = Point(problem.name, 100 * step // STEPS, limit, limited(problem, limit))
        points.append(point)
        _solve(point, settings, folder, reuse)
        print(f"{point.instance} {point.percent} %: {_said(point)}", file=sys.stderr, flush=True)
        if point.infeasible:
            break
    carry(points, free_plan, record)
    return record, points


def _solve(point: Point, settings: Settings, folder: Path, reuse: Reuse) -> None:
    try:
        record, plan = recorded_solve(point.problem, settings, folder, reuse)
    except Exception as error:  # a crash at one limit is a row, the others go on
        point.error = without_folders(f"{type(error).__name__}: {error}")
        return
    point.record, point.plan = record, plan
    point.value, point.origin = record["value"], point.percent
    point.bound, point.bound_name = record["bound"], record["bound_name"] or ""
    point.infeasible = record["infeasible_because"] or ""


def carry(points: list[Point], free_plan: Plan, free: Record) -> None:
    """Carry plans to looser limits and bounds to tighter ones."""
    found: list[tuple[Plan, int | None]] = [(free_plan, None)]
    for point in reversed(points):
        if point.plan is not None:
            found.append((point.plan, point.origin))
        for plan, origin in found:
            _offer(point, plan, origin)
    bound, name = free["bound"], free["bound_name"]
    for point in points:
        if point.infeasible:
            point.bound, point.bound_name = None, ""
        elif point.bound is None or (bound is not None and bound > point.bound):
            point.bound, point.bound_name = bound, f"{name} (looser limit)"
        bound, name = point.bound, point.bound_name.removesuffix(" (looser limit)")


def _offer(point: Point, plan: Plan, origin: int | None) -> None:
    """Take a plan made for another limit if it is better and passes the check here."""
    moved = replace(plan, fingerprint=point.problem.fingerprint)
    verdict = verify(point.problem, moved)
    if verdict.ok and (point.value is None or (verdict.value or 0) < point.value):
        point.plan, point.value, point.origin = moved, verdict.value, origin


def problems_of(points: list[Point]) -> list[str]:
    """What contradicts the claims of the page: errors, plans that fail, a curve that falls."""
    found = [f"{p.instance} {p.percent} %: {p.error}" for p in points if p.error]
    for point in points:
        where = f"{point.instance} {point.percent} %"
        if point.plan is not None:
            verdict = verify(point.problem, replace(point.plan, fingerprint=None))
            if not verdict.ok or verdict.value != point.value:
                found.append(f"{where}: the plan fails the check")
            if point.infeasible:
                found.append(f"{where}: proved infeasible, but there is a plan")
        if point.value is not None and point.bound is not None and point.bound > point.value:
            found.append(f"{where}: bound {point.bound} above value {point.value}")
    values = [p.value for p in points if p.value is not None]
    if any(tight < loose for loose, tight in pairwise(values)):
        found.append(f"{points[0].instance}: the curve is not monotone")
    return found


# -- the page ------------------------------------------------------------------------------------


def _gap(point: Point) -> float | None:
    if point.value is None or point.bound is None:
        return None
    return (point.value - point.bound) / point.value if point.value else 0.0


def _said(point: Point) -> str:
    if point.error:
        return "error"
    if point.infeasible:
        return "proved infeasible"
    return "no plan found" if point.value is None else f"{point.value} ticks"


def section(problem: PlanningProblem, points: list[Point], picture: str) -> str:
    """Table and figure of one instance."""
    largest = max((p.value for p in points if p.value is not None), default=0)
    units = problem.units
    scale = amount_scale(
        {
            "value": largest,
            "objective": str(problem.objective),
            "units": {"time": units.time, "size": units.size, "time_scale": units.time_scale},
        }
    )
    lines = []
    for point in points:
        state = point.error or point.infeasible or ("no plan found" if point.value is None else "")
        origin = "no limit" if point.origin is None else f"{point.origin} %"
        lines.append(
            [
                f"{point.percent} %",
                f"{point.limit_bytes:,}",
                amount(point.value, scale),
                origin if point.value is not None else text(None),
                amount(point.bound, scale),
                text(point.bound_name),
                share(_gap(point)),
                "ok" if point.value is not None else text(None),
                state,
            ]
        )
    headings = ["limit", "bytes per device", "value", "from", "bound", "bound by", "gap"]
    headings += ["check", "remark"]
    own = {device.memory_bytes for device in problem.cluster.devices}
    said = ", ".join("no limit" if size is None else f"{size:,}" for size in sorted(own, key=str))
    return (
        f"## {problem.name}\n\n{len(problem.graph.operators)} operators, "
        f"{len(problem.cluster.devices)} devices, objective {problem.objective}; bytes per device "
        f"in the file: {said}.\n\n"
        f"{table(headings, lines)}\n![{problem.name}]({picture})\n"
    )


def write_csv(path: Path, points: list[Point]) -> None:
    """Write every point with exact numbers."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(CSV_HEADINGS)
        for p in points:
            origin = p.origin if p.value is not None else None
            row = [p.instance, p.percent, p.limit_bytes, p.value, origin, p.bound, p.bound_name]
            out.writerow([*row, p.infeasible, p.error])


def draw(problem: PlanningProblem, points: list[Point], stem: Path) -> None:
    """Write the figure of one instance as PNG and SVG."""
    marks = [MemoryPoint(p.limit_bytes, p.value, p.bound, bool(p.infeasible)) for p in points]
    of_bytes = problem.objective == "peak_memory"
    for suffix in (".png", ".svg"):
        figure = memory_sweep(marks, problem.name, problem.units, of_bytes=of_bytes)
        write_figure(figure, stem.with_name(stem.name + suffix))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="instances; else the chosen ones")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds per limit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results")
    parser.add_argument("--resume", action="store_true", help="reuse records of the same runs")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if an instance failed or the page would contradict itself."""
    given = parse(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    settings = Settings(time_limit_s=given.time_limit, seed=given.seed)
    reuse: Reuse = "yes" if given.resume else "no"
    files = given.files or [next(INSTANCES.glob(f"{name}.json*")) for name in CHOSEN]
    records: list[Record] = []
    every: list[Point] = []
    sections, wrong = [], []
    for file in files:
        try:
            problem = read(file)
            record, points = sweep(problem, settings, given.records, reuse)
        except Exception as error:  # one instance that fails costs its section only
            said = without_folders(f"{type(error).__name__}: {error}", file)
            wrong.append(f"{file.name}: {said}")
            continue
        records += [record, *(p.record for p in points if p.record is not None)]
        every += points
        stem = given.out / f"memory_sweep-{problem.name}"
        draw(problem, points, stem)
        sections.append(section(problem, points, f"{stem.name}.svg"))
        wrong += problems_of(points)
    words = ["python", "benchmarks/memory_sweep.py", *(f.name for f in given.files)]
    words += ["--time-limit", f"{given.time_limit:g}", "--seed", str(given.seed)]
    asked = f"- {given.time_limit:g} s per limit, 1 solver thread, seed {given.seed}"
    about = " ".join((__doc__ or "").split("\n\n")[1].split())
    page = ["# What memory costs\n", provenance(shlex.join(words), records, asked), about + "\n"]
    page += [
        "Values are rounded here and exact in `memory_sweep.csv` (ticks). Every value is the "
        "checker's, for a plan that passes under the limit of its row.\n"
    ]
    if wrong:
        page.append("Problems:\n\n" + "\n".join(f"- {line}" for line in wrong) + "\n")
    (given.out / "memory_sweep.md").write_text("\n".join(page + sections), encoding="utf-8")
    write_csv(given.out / "memory_sweep.csv", every)
    print(given.out / "memory_sweep.md")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
