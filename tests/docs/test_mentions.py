"""Files, modules and attributes that pages mention exist."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

from tests.support.transcripts import ROOT, blocks, pages

HOMES = ("", "milp_plan", "milp_plan/kinds/schedule", "milp_plan/kinds/training", "results/paper")
"""Folders that paths may start from, other than the folder of the page."""

SOURCES = ("milp_plan", "benchmarks", "examples", "formulations", "tests")

MADE = ("build/", "results/bench", "results/runs/", "results/store", "results/sweeps")
"""Where commands write: in no checkout. So are two files."""

MADE_FILES = {"results/timeline.png", "results/torch-gpu.md"}

ENTRY_POINTS = {"milp_plan.formulations"}
"""Names of groups of entry points, which are no modules."""

PLACEHOLDER = re.compile(r"\b(FOLDER|KEY|NAME|STORE)\b")


def every_page() -> list[Path]:
    """Return the pages for users, of formats, formulations, notebooks and studies."""
    more = ("docs/notebooks/*.md", "instances/**/*.md", "formulations/*/page.md")
    studies = ("benchmarks/README.md", "results/**/*.md", "results/**/study.toml")
    found = [page for each in (*more, *studies) for page in sorted(ROOT.glob(each))]
    return [*pages(), *(page for page in found if ROOT / "results" / "store" not in page.parents)]


def missing_files(page: Path, text: str) -> list[str]:
    """Return paths, and names of Python files, that neither exist nor are made by the page."""
    written = "".join(f"{block.file} {block.text}" for block in blocks(page))
    homes = [page.parent, *(ROOT / home for home in HOMES)]
    missing = []
    for name in re.findall(r"`((?:[\w.*-]+/)+[\w.*-]*|\w+\.py)`", text):
        if name.startswith(MADE) or name in MADE_FILES or PLACEHOLDER.search(name):
            continue
        if "/" in name:
            ends = (f"{name.rstrip('/')}{end}" for end in ("", ".py"))
            found = any(any(home.glob(end)) for end in ends for home in homes)
        else:
            found = any(any((ROOT / home).rglob(name)) for home in SOURCES)
        if not found and name not in written:
            missing.append(name)
    return missing


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_files_that_pages_mention_exist() -> None:
    """A page named a module for months after it had been deleted."""
    texts = {page: page.read_text(encoding="utf-8") for page in every_page()}
    assert sum(text.count(".py`") for text in texts.values()) > 100
    missing = {str(page): missing_files(page, text) for page, text in texts.items()}
    assert {page: names for page, names in missing.items() if names} == {}


def test_names_that_pages_mention_exist() -> None:
    """The page of a formulation named a module that had moved."""
    found = {
        (str(page), name)
        for page in every_page()
        for name in re.findall(r"`(milp_plan(?:\.\w+)+)", page.read_text(encoding="utf-8"))
    }
    assert len(found) > 20
    assert {(page, n) for page, n in found if n not in ENTRY_POINTS and not resolves(n)} == set()


def test_wrong_mentions_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "`run/ledger.py`, `run/none.py`, `ledger.py`, `none.py`, `kinds/NAME/x.py`, `mine.py`"
    page.write_text(f"{text}\n```console\n$ cat mine.py\n```\n", encoding="utf-8")
    assert missing_files(page, text) == ["run/none.py", "none.py"]
    assert resolves("milp_plan.run.ledger.Ledger")
    assert not resolves("milp_plan.run.periodic")
    assert not resolves("milp_plan.solve.nothing")
