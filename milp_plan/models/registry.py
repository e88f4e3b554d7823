"""Finding formulations: by name, by path to a file or to a package, by entry point.

A formulation is a file, or a folder with ``__init__.py`` that imports its own modules relatively.
One that does not load is listed with its error and breaks nothing else. Packages in the folders of
this package are ours and run in this process; everything else runs in one of its own
(:mod:`.isolated`), from the first line of its module on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from milp_plan.core import FormulationError
from milp_plan.io.defects import nearest

from .failure import shipped_folders
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
        ``None`` if it did not load here; one that did not load in a process of its own answers
        every question with its error.
    error
        Why it did not load.
    file_hash
        SHA-256 of the file, or over all modules of the package, as they were loaded; ``None`` for
        entry points.
    """

    name: str
    reference: str
    formulation: Formulation[Any, Any] | None = None
    error: str | None = None
    file_hash: str | None = None


def discover() -> dict[str, Found]:
    """Every formulation by name; the first of a name wins, and no other is loaded."""
    found: dict[str, Found] = {}
    for name, source in _all():
        if name not in found:
            item = _from(name, source)
            found.setdefault(item.name, item)
    return found


def _all() -> Iterator[tuple[str, Path | str]]:
    """Yield names and where they come from: a path, or the value of an entry point."""
    for path in _shipped():
        yield path.stem, path
    for entry in entry_points(group=ENTRY_POINTS):
        yield entry.name, entry.value


def _from(name: str, source: Path | str, limit_s: float | None = None) -> Found:
    """Load a formulation here if it is ours, and in a process of its own if it is not."""
    if isinstance(source, Path) and is_ours(source):
        return load(source)
    return isolated(name, source, limit_s)


def _shipped() -> Iterator[Path]:
    for folder in shipped_folders():
        packages = [init.parent for init in folder.glob("*/__init__.py")]
        yield from sorted([*packages, *folder.glob("*.py")])


def shipped(name: str) -> Found:
    """Return one of our packages without loading it."""
    path = next(path for path in _shipped() if path.stem == name)
    return Found(name, str(path), None, None, _hash(path))


def is_ours(path: Path) -> bool:
    """Whether this is a package of ours; files beside them are what people have written."""
    path = path.resolve()
    return path.is_dir() and path.parent in [folder.resolve() for folder in shipped_folders()]


def load(path: Path) -> Found:
    """Load a file or package in this process; the error, if any, is in the answer."""
    file_hash = _hash(path)
    try:
        loaded = from_file(path)
    except FormulationError as error:
        return Found(path.stem, str(path), None, str(error), file_hash)
    except Exception as error:  # whatever a user's file does wrong
        said = f"{type(error).__name__}: {error}"
        return Found(path.stem, str(path), None, said, file_hash)
    return Found(loaded.card.name, str(path), loaded, None, file_hash)


_isolated: dict[tuple[str, str | None], Found] = {}
"""What runs in processes of its own: a file as it is now is loaded once."""


def isolated(name: str, reference: str | Path, limit_s: float | None = None) -> Found:
    """Load a file, a package or an entry point in a process of its own.

    Parameters
    ----------
    name
        What it is called until it is loaded.
    reference
        A path, or the value of an entry point.
    limit_s
        Seconds that loading it may take.
    """
    from .isolated import isolate

    file_hash = _hash(reference) if isinstance(reference, Path) else None
    place = reference.absolute() if isinstance(reference, Path) else reference
    key = (str(place), file_hash)
    if key not in _isolated:
        formulation, error = isolate(name, place, limit_s)
        _isolated[key] = Found(formulation.card.name, str(reference), formulation, error, file_hash)
    return _isolated[key]


def from_file(path: Path) -> Formulation[Any, Any]:
    """Return the formulation of a file or package; its code runs here and now.

    Raises
    ------
    FormulationError
        It has none that is complete.
    Exception
        Whatever it raises itself.
    """
    return _checked(getattr(_import(path), ATTRIBUTE, None))


def from_entry(value: str) -> Formulation[Any, Any]:
    """Return the formulation of an entry point; see :func:`from_file`."""
    return _checked(EntryPoint("", value, ENTRY_POINTS).load())


def _hash(path: Path) -> str | None:
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for part in sorted(path.rglob("*.py")):
        digest.update(f"{part.relative_to(path).as_posix()}\0".encode())
        digest.update(hashlib.sha256(part.read_bytes()).digest())
    return digest.hexdigest() if path.is_dir() else None


def _checked(candidate: Any) -> Formulation[Any, Any]:
    if candidate is None:
        raise FormulationError(f"it defines no {ATTRIBUTE}")
    if isinstance(candidate, type):
        name = candidate.__name__
        raise FormulationError(
            f"{ATTRIBUTE} is a class, expected an instance: {ATTRIBUTE} = {name}()"
        )
    if not isinstance(candidate, Formulation):
        missing = [part for part in PARTS if not hasattr(candidate, part)]
        known = " and ".join(f"`{ADVICE[part]}`" for part in missing if part in ADVICE)
        advice = f"; add {known}" if known else ""
        raise FormulationError(f"{ATTRIBUTE} lacks {', '.join(missing)}{advice}")
    return candidate


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
        if b"pyomo" in start.read_bytes():
            from milp_plan.lp.loading import load_pyomo

            load_pyomo()
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


def path_of(reference: str) -> Path:
    """Return the path that names a formulation.

    Raises
    ------
    FormulationError
        There is nothing.
    """
    path = Path(reference)
    if not path.exists():
        raise FormulationError(f"formulation {reference!r}: there is no such file or folder")
    return path


def get(reference: str) -> Found:
    """Return a loaded formulation by name, or by path to a ``.py`` file or a package.

    Raises
    ------
    FormulationError
        There is none of that name, or it does not load; says which names there are.
    """
    item = find(reference)
    if item.formulation is None:
        raise FormulationError(f"formulation {item.name!r} ({item.reference}): {item.error}")
    if item.error is not None:
        raise FormulationError(item.error)
    return item


def find(reference: str, limit_s: float | None = None) -> Found:
    """Return a formulation like :func:`get`, also one that does not load: with its error.

    Parameters
    ----------
    reference
        Name or path.
    limit_s
        Seconds that loading it may take where it is not ours.

    Raises
    ------
    FormulationError
        There is none of that name, or nothing at that path.
    """
    if is_path(reference):
        path = path_of(reference)
        return _from(path.stem, path, limit_s)
    for name, source in _all():
        if name == reference:
            return _from(name, source, limit_s)
    known = discover()
    if reference not in known:
        raise FormulationError(
            f"formulation {reference!r}: found no such name, expected one of "
            f"{', '.join(sorted(known))} or a path to a .py file; "
            f"{nearest(reference, known, 'correct the name')}"
        )
    return known[reference]
