"""Processor time until something is there, as ratios to ``python -c "import numpy"``.

``python benchmarks/startup.py`` writes ``results/startup.md``. Each row is the median of several
processes; ratios hold on slow and busy machines as well, seconds are those of this one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "results" / "startup.md"
INSTANCE = "instances/two-tower-tiny-inference-2xH100.json"
"""Eleven operators; a baseline meets a bound."""

UNIT = ("-c", "import numpy")
CASES = {
    "`import milp_plan`": ("-c", "import milp_plan"),
    "`milp-plan --version`": ("-m", "milp_plan", "--version"),
    "`milp-plan solve` of 11 operators, proved": ("-m", "milp_plan", "solve", INSTANCE, "--quiet"),
}


def processor_seconds(words: tuple[str, ...], folder: str) -> float:
    """User and system seconds of one process, and of those it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "solve" in words:
        words = (*words, "--record-folder", folder)
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def table(runs: int) -> str:
    """Return the page; cases take turns, so that a busy moment meets all of them."""
    cases = {'`python -c "import numpy"`': UNIT, **CASES}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs + 1):
            for name, words in cases.items():
                seconds[name].append(processor_seconds(words, folder))
    middle = {name: median(found[1:]) for name, found in seconds.items()}  # the first one warms up
    unit = next(iter(middle.values()))
    lines = [
        "# Start-up",
        "",
        "Made again by `python benchmarks/startup.py`: processor time, user and system, of whole",
        f"processes, medians of {runs}. Ratios are what counts: seconds are those of one machine.",
        "",
        "| | ratio | processor seconds |",
        "| :--- | ---: | ---: |",
        *(f"| {name} | {found / unit:.2f} | {found:.3f} |" for name, found in middle.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    given.output.write_text(table(given.runs), encoding="utf-8")
    print(given.output)


if __name__ == "__main__":
    main()
