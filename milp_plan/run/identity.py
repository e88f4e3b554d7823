"""Sources and versions, on which answers depend beside problem and settings."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from milp_plan import __version__
from milp_plan.core import MilpPlanError
from milp_plan.models.failure import shipped_folders

PACKAGES = ("highspy", "numba", "numpy", "pyomo", "scipy")
"""Packages whose versions are part of a key, beside this one's own sources."""

UNCOUNTED = ("cli", "report")
"""Packages that no answer depends on: nothing that plans imports them."""

CACHES = "__pycache__"
"""Folders of compiled code, Python's and that of loops."""

PACKAGE = Path(__file__).resolve().parents[1]


def source_folders() -> tuple[Path, ...]:
    """Return this package, and the folders of shipped formulations."""
    return (PACKAGE, *shipped_folders())


@cache
def sources() -> str:
    """SHA-256 over all that plans: this package without commands and reports, and formulations."""
    return _digest(source_folders())


def _digest(folders: tuple[Path, ...]) -> str:
    package, *_ = folders
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder)
            if folder == package and inside.parts[0] in (*UNCOUNTED, "_data"):
                continue
            digest.update(f"{inside.as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def frozen(folder: Path) -> Path:
    """Copy the sources into a folder of their own, once; return what to put on the import path.

    Runs that import the copy all compute by the sources their keys speak of, whatever happens to
    the originals meanwhile; and what a result was computed by can be looked up later. Code that
    is compiled is no part of that: :func:`warm` lends it to the copy, :func:`cool` takes it away.

    Raises
    ------
    MilpPlanError
        The sources have changed since :func:`sources` read them.
    """
    target = folder / sources()[:16]
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{target.name}.{os.getpid()}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    copies = tuple(draft / place.name for place in source_folders() if place.parent.name != "_data")
    for place, copy in zip(source_folders(), copies, strict=False):
        _copy(place, copy)
    if PACKAGE / "_data" in [place.parent for place in source_folders()]:
        copies = (*copies, draft / PACKAGE.name / "_data" / "formulations")
    if _digest(copies) != sources():
        shutil.rmtree(draft)
        raise MilpPlanError("the sources of milp_plan changed meanwhile; start the command again")
    try:
        draft.rename(target)
    except OSError:  # another driver was faster
        shutil.rmtree(draft)
    return target


def _copy(place: Path, copy: Path) -> None:
    """Copy a folder; the first file that cannot be written is the error, not a list of all."""
    try:
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns(CACHES))
    except shutil.Error as error:
        shutil.rmtree(copy.parent, ignore_errors=True)
        _, target, reason = error.args[0][0]
        raise OSError(f"{target} cannot be written: {reason}") from None


def warm(target: Path) -> None:
    """Link the compiled loops beside our sources into a frozen copy of them, where none are yet."""
    for place in source_folders():
        copy = target / place.relative_to(PACKAGE.parent)
        for path in place.rglob(f"{CACHES}/*.nb[ic]"):
            link = copy / path.relative_to(place)
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # who has no compiled loops compiles them
                link.hardlink_to(path)


def cool(target: Path) -> None:
    """Remove all compiled code from a frozen copy: a store keeps sources and results."""
    for path in list(target.rglob(CACHES)):
        shutil.rmtree(path, ignore_errors=True)


@cache
def installed() -> dict[str, str | None]:
    """Versions that a key depends on."""
    found: dict[str, str | None] = {"milp_plan": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
