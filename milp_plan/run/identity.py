"""Sources and versions, on which results depend in addition to problem and settings."""

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
"""Packages whose versions are part of a key."""

UNCOUNTED = ("cli", "report")
"""Folders on which no result depends: nothing that plans imports them."""

CACHES = "__pycache__"
"""Name of folders with compiled code, of Python and of loops."""

PACKAGE = Path(__file__).resolve().parents[1]


def source_folders() -> tuple[Path, ...]:
    """Return this package, and the folders of shipped formulations."""
    return (PACKAGE, *shipped_folders())


@cache
def sources() -> str:
    """Return the SHA-256 of this package without commands and reports, and of formulations."""
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


def snapshot(folder: Path) -> Path:
    """Copy the sources into a folder of their own, once; return its path for ``sys.path``.

    Runs that import the copy use the sources that their keys name, even if the originals change
    meanwhile, and the sources of a result can be read later. Compiled code is not copied:
    :func:`link_caches` links it into the copy, :func:`drop_caches` removes it.

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
    """Copy a folder; raise an error for the first file that cannot be written."""
    try:
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns(CACHES))
    except shutil.Error as error:
        shutil.rmtree(copy.parent, ignore_errors=True)
        _, target, reason = error.args[0][0]
        raise OSError(f"{target} cannot be written: {reason}") from None


def link_caches(target: Path) -> None:
    """Link compiled loops into a snapshot of the sources, where it has none yet."""
    for place in source_folders():
        copy = target / place.relative_to(PACKAGE.parent)
        for path in place.rglob(f"{CACHES}/*.nb[ic]"):
            link = copy / path.relative_to(place)
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # a snapshot without them compiles its own
                link.hardlink_to(path)


def drop_caches(target: Path) -> None:
    """Remove all compiled code from a snapshot: a store keeps only sources and results."""
    for path in list(target.rglob(CACHES)):
        shutil.rmtree(path, ignore_errors=True)


@cache
def installed() -> dict[str, str | None]:
    """Return the versions that a key depends on; ``None`` for packages that are not installed."""
    versions: dict[str, str | None] = {"milp_plan": __version__}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions
