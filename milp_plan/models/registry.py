"""Finding formulations: by name, by path to a file or to a package, by entry point.

A formulation is a file, or a folder with ``__init__.py`` that imports its own modules relatively.
One that does not load is listed with its error and breaks nothing else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from milp_plan.core import FormulationError

from .protocol import Formulation

ENTRY_POINTS = "milp_plan.formulations"
ATTRIBUTE = "FORMULATION"
PACKAGE = "formulations"
"""Name that the shipped formulations are imported under: ``formulations.sharding`` and so on."""

PARTS = (
    *("card", "handles", "Options", "restricts", "unsupported"),
    *("build", "scale", "decode", "encode"),
)

ADVICE = {
    "handles": "handles = PlanningProblem",
    "restricts": "def restricts(self, options): return False  # True where it leaves out plans",
}
"""What to write where a part is missing that formulations did not always have."""

_IMPORTING = threading.RLock()


@dataclass(frozen=True)
class Found:
    """A formulation that was found: loaded, or listed with the reason why it was not.

    Parameters
    ----------
    name
        Name it is called by.
    reference
        File or entry point it comes from.
    formulation
        ``None`` if it did not load.
    error
        Why not.
    file_hash
        SHA-256 of the file, or over all modules of the package, as they were loaded; ``None`` for
        entry points.
    """

    name: str
    reference: str
    formulation: Formulation | None = None
    error: str | None = None
    file_hash: str | None = None


def shipped_folders() -> tuple[Path, ...]:
    """Folders of formulations that come with the package: a checkout, or the wheel's data."""
    package = Path(__file__).resolve().parent.parent
    return tuple(
        folder
        for folder in (package.parent / "formulations", package / "_data" / "formulations")
        if folder.is_dir()
    )


def discover() -> dict[str, Found]:
    """Every formulation by name; the first of a name wins."""
    found: dict[str, Found] = {}
    for item in _all():
        found.setdefault(item.name, item)
    return found


def _all() -> Iterator[Found]:
    for folder in shipped_folders():
        packages = [init.parent for init in folder.glob("*/__init__.py")]
        for path in sorted([*packages, *folder.glob("*.py")]):
            yield load(path)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            yield _checked(entry.name, entry.value, entry.load())
        except Exception as error:  # a foreign plug-in may fail in any way
            yield Found(entry.name, entry.value, error=f"{type(error).__name__}: {error}")


def load(path: Path) -> Found:
    """Load a formulation's file or package; the error, if any, is in the answer."""
    file_hash = _hash(path)
    try:
        module = _import(path)
    except Exception as error:  # whatever a user's file does wrong
        found = Found(path.stem, str(path), error=f"{type(error).__name__}: {error}")
    else:
        found = _checked(path.stem, str(path), getattr(module, ATTRIBUTE, None))
    return replace(found, file_hash=file_hash)


def _hash(path: Path) -> str | None:
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for part in sorted(path.rglob("*.py")):
        digest.update(f"{part.relative_to(path).as_posix()}\0".encode())
        digest.update(hashlib.sha256(part.read_bytes()).digest())
    return digest.hexdigest() if path.is_dir() else None


def _checked(name: str, reference: str, candidate: Any) -> Found:
    if candidate is None:
        return Found(name, reference, error=f"defines no {ATTRIBUTE}")
    if not isinstance(candidate, Formulation):
        missing = [part for part in PARTS if not hasattr(candidate, part)]
        known = " and ".join(f"`{ADVICE[part]}`" for part in missing if part in ADVICE)
        advice = f"; add {known}" if known else ""
        return Found(name, reference, error=f"{ATTRIBUTE} lacks {', '.join(missing)}{advice}")
    return Found(candidate.card.name, reference, formulation=candidate)


def _import(path: Path) -> Any:
    """Import a file or package: shipped ones once and by their own name, others as they are now."""
    path = path.resolve()
    start = path / "__init__.py" if path.is_dir() else path
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"milp_plan_formulation_{digest}"
    with _IMPORTING:
        if path.parent in [folder.resolve() for folder in shipped_folders()]:
            known = sys.modules.get(f"{PACKAGE}.{path.stem}")
            if known is None:
                name = f"{PACKAGE}.{path.stem}"
                _shelve(path.parent)
            elif known.__file__ == str(start):
                return known
        _forget(name)
        inside = [str(path)] if path.is_dir() else None
        spec = importlib.util.spec_from_file_location(
            name, start, submodule_search_locations=inside
        )
        if spec is None or spec.loader is None:
            raise FormulationError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and relative imports look their module up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            _forget(name)
            raise
        return module


def _shelve(folder: Path) -> None:
    """Make the package that shipped formulations are in known where nothing else does.

    In a checkout it is on the import path; an installed one is not, and what pickles a class of a
    formulation asks for the package.
    """
    if PACKAGE not in sys.modules and importlib.util.find_spec(PACKAGE) is None:
        shelf = ModuleType(PACKAGE)
        shelf.__path__ = [str(folder)]
        sys.modules[PACKAGE] = shelf


def _forget(name: str) -> None:
    """Take a module and those inside it off the list of what has been imported."""
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]


def is_path(reference: str) -> bool:
    """Whether a formulation is named by its path: a ``.py`` file, or a folder with a separator."""
    return reference.endswith(".py") or "/" in reference or os.sep in reference


def get(reference: str) -> Found:
    """Return a loaded formulation by name, or by path to a ``.py`` file or a package.

    Raises
    ------
    FormulationError
        There is none of that name, or it does not load; says which names there are.
    """
    if is_path(reference):
        item = load(Path(reference))
    else:
        known = discover()
        if reference not in known:
            raise FormulationError(
                f"formulation {reference!r}: found no such name, expected one of "
                f"{sorted(known)} or a path to a .py file"
            )
        item = known[reference]
    if item.formulation is None:
        raise FormulationError(f"formulation {item.name!r} ({item.reference}): {item.error}")
    return item
