"""Tables in the README and the pipeline page agree with the results; commands: ``tests/docs``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIPELINES = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")


def test_the_headline_is_what_the_results_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "headline.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: python benchmarks/headline.py"


def test_the_share_of_dualpipes_bubble_is_what_command_and_table_say() -> None:
    claim = re.search(r"in (\d+) % of its bubble \((\d+) instead of (\d+)\)", PIPELINES)
    assert claim is not None
    percent, ours, theirs = map(int, claim.groups())
    shown = re.search(
        r"^dualpipe, 4 devices, 8 .* makespan (\d+) \(proved", PIPELINES, re.MULTILINE
    )
    assert shown is not None
    table = (ROOT / "results/paper/dualpipe/table.md").read_text(encoding="utf-8")
    row = next(line for line in table.splitlines() if "| 4 × 8 | 10, 12, 7, 1 | 5 |" in line)
    cells = [cell.strip() for cell in row.split("|")]
    work, published, found = int(cells[6]), int(cells[9]), int(cells[11].strip("*"))
    assert int(shown[1]) == found
    assert (ours, theirs) == (found - work, published - work)
    assert percent == round(100 * ours / theirs)
