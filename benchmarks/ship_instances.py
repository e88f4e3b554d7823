"""Write every shipped instance from its recipe: ``python benchmarks/ship_instances.py``.

Files that no recipe makes any more are removed. Text longer than 100 kB is compressed, without a
time stamp, so that a second run changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from milp_plan.core import PlanningProblem
from milp_plan.kinds.schedule.formats import write
from milp_plan.zoo import MESHED, SHIPPED, TRAPS

FOLDER = Path(__file__).resolve().parent.parent / "instances"
LARGEST_PLAIN_BYTES = 100_000


def problems() -> list[PlanningProblem]:
    """Every problem that is shipped."""
    return [recipe.build() for recipe in (*SHIPPED, *MESHED)] + [trap.problem for trap in TRAPS]


def main() -> None:
    """Write the files and say what was written."""
    kept = set()
    for problem in problems():
        path = FOLDER / f"{problem.name}.json"
        write(problem, path)
        if path.stat().st_size > LARGEST_PLAIN_BYTES:
            path.unlink()
            path = path.with_suffix(".json.gz")
            write(problem, path)
        kept.add(path)
        print(f"{path.name}: {len(problem.graph.operators)} operators")
    for path in sorted(FOLDER.glob("*.json*")):
        if path not in kept:
            path.unlink()
            print(f"{path.name}: removed")


if __name__ == "__main__":
    main()
