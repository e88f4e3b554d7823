"""Removing the folder of a kind, its formulations and its tests leaves a package that works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import milp_plan

ROOT = Path(milp_plan.__file__).parents[1]
REMOVABLE = (
    "hybrid",
    "jobs",
    "local_updates",
    "packing",
    "rematerialisation",
    "resharding",
    "serving",
    "sharding",
    "training",
)
"""Schedules, with their parts placement and pipeline, are what captures and studies are made of."""

TOGETHER = {"training": ("serving",)}
"""Kinds that build on another one."""

IMPORT_ALL = """
import pkgutil
from importlib import import_module

for package in ("milp_plan", "formulations"):
    for module in pkgutil.walk_packages([package], f"{package}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
"""


def mentions(text: str, kinds: tuple[str, ...]) -> bool:
    """Whether a module imports or names one of some kinds."""
    return any(re.search(rf"kinds(\.| import ){kind}\b", text) for kind in kinds)


def removed(kind: str, root: Path) -> Path:
    """Copy the sources without a kind, its formulations, and the tests that need either."""
    kinds = (kind, *TOGETHER.get(kind, ()))
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in ("milp_plan", "formulations", "tests", "instances"):
        shutil.copytree(ROOT / name, root / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", root)
    for one in kinds:
        shutil.rmtree(root / "milp_plan" / "kinds" / one)
    gone = set()
    for folder in (root / "formulations").iterdir():
        files = folder.glob("*.py") if folder.is_dir() else ()
        if any(mentions(file.read_text(), kinds) for file in files):
            gone.add(folder.name)
            shutil.rmtree(folder)
    remove_tests(root / "tests", kinds, gone)
    return root


def remove_tests(tests: Path, kinds: tuple[str, ...], formulations: set[str]) -> None:
    """Remove what names a kind or a formulation, and what imports a module that was removed."""
    words = {rf"formulations\.{name}\b|\"{name}\"" for name in formulations}
    texts = {path: path.read_text() for path in tests.rglob("*.py")}
    left = {
        path
        for path, text in texts.items()
        if not mentions(text, kinds) and not any(re.search(word, text) for word in words)
    }
    while True:
        modules = {path.stem for path in texts.keys() - left}
        needed = {path for path in left if imports(texts[path]) & modules}
        if not needed:
            break
        left -= needed
    for path in texts.keys() - left:
        path.unlink()


def imports(text: str) -> set[str]:
    """Last names of what a test imports from other tests."""
    found = set()
    for base, names in re.findall(
        r"^\s*from (\.[\w.]*|tests[\w.]*) import (\([^)]*\)|[^\n]*)", text, re.M
    ):
        found |= {base.split(".")[-1], *re.findall(r"\w+", names)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", REMOVABLE)
def test_a_kind_can_be_removed(kind: str, tmp_path: Path) -> None:
    root = removed(kind, tmp_path)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run("-c", IMPORT_ALL)
    listed = run("-m", "milp_plan", "list", "kinds", "--json")
    assert kind.replace("_", "-") not in re.findall(r'"name": "([\w-]+)"', listed)
    assert "schedule" in listed
    run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")
    run("-m", "mypy", "--cache-dir", str(tmp_path / "mypy"))
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core", "tests/check", "tests/kinds")
