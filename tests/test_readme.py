"""The README does what it says: its commands run, its table is what the results say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROVED_INFEASIBLE = 4


def commands() -> list[tuple[str, list[str]]]:
    """Each ``$`` command of the console blocks with the output lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    assert words[0] == "milp-plan"
    return subprocess.run(
        [sys.executable, "-m", "milp_plan", *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def matches(shown: str, printed: str) -> bool:
    """Whether a printed line is the shown one, where ``...`` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, printed.rstrip()) is not None


@pytest.mark.untraced
def test_the_tour_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the tour draws: pip install 'milp_plan[plot]'")
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    tour = commands()
    assert len(tour) >= 8
    for command, shown in tour:
        done = run(command, tmp_path)
        wanted = PROVED_INFEASIBLE if "--memory-scale" in command else 0
        assert done.returncode == wanted, (command, done.stdout, done.stderr)
        printed = done.stdout.splitlines()
        for line in shown:
            if line.strip() != "...":
                assert any(matches(line, other) for other in printed), (command, line, done.stdout)


def test_every_link_to_a_file_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(links) > 8
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_headline_is_what_the_results_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "headline.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: python benchmarks/headline.py"


def test_the_share_of_dualpipes_bubble_is_what_command_and_table_say() -> None:
    claim = re.search(r"in (\d+) % of its bubble \((\d+) instead of (\d+)\)", README)
    assert claim is not None
    percent, ours, theirs = map(int, claim.groups())
    shown = re.search(r"^dualpipe, 4 devices, 8 .* makespan (\d+) \(proved", README, re.MULTILINE)
    assert shown is not None
    table = (ROOT / "results/paper/dualpipe/table.md").read_text(encoding="utf-8")
    row = next(line for line in table.splitlines() if "| 4 × 8 | 10, 12, 7, 1 | 5 |" in line)
    cells = [cell.strip() for cell in row.split("|")]
    work, published, found = int(cells[6]), int(cells[9]), int(cells[11].strip("*"))
    assert int(shown[1]) == found
    assert (ours, theirs) == (found - work, published - work)
    assert percent == round(100 * ours / theirs)
