"""Finding formulations: by name, by path to a file, by entry point.

A file that does not load is listed with its error and breaks nothing else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from milp_plan.core import FormulationError

from .protocol import Formulation

ENTRY_POINTS = "milp_plan.formulations"
ATTRIBUTE = "FORMULATION"


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
    """

    name: str
    reference: str
    formulation: Formulation | None = None
    error: str | None = None

    @property
    def file_hash(self) -> str | None:
        """SHA-256 of the file; ``None`` for entry points."""
        path = Path(self.reference)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


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
        for path in sorted(folder.glob("*.py")):
            yield load_file(path)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            yield _checked(entry.name, entry.value, entry.load())
        except Exception as error:  # a foreign plug-in may fail in any way
            yield Found(entry.name, entry.value, error=f"{type(error).__name__}: {error}")


def load_file(path: Path) -> Found:
    """Load one formulation file; the error, if any, is in the answer."""
    name = path.stem
    try:
        module = _import(path)
    except Exception as error:  # whatever a user's file does wrong
        return Found(name, str(path), error=f"{type(error).__name__}: {error}")
    candidate = getattr(module, ATTRIBUTE, None)
    if candidate is None:
        return Found(name, str(path), error=f"defines no {ATTRIBUTE}")
    return _checked(name, str(path), candidate)


def _checked(name: str, reference: str, candidate: Any) -> Found:
    if not isinstance(candidate, Formulation):
        parts = ("card", "Options", "unsupported", "build", "scale", "decode", "encode")
        missing = [part for part in parts if not hasattr(candidate, part)]
        return Found(name, reference, error=f"{ATTRIBUTE} lacks {', '.join(missing)}")
    return Found(candidate.card.name, reference, formulation=candidate)


def _import(path: Path) -> Any:
    unique = (
        f"milp_plan_formulation_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    )
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise FormulationError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def get(reference: str) -> Found:
    """Return a loaded formulation by name or by path to a ``.py`` file.

    Raises
    ------
    FormulationError
        There is none of that name, or it does not load; says which names there are.
    """
    if reference.endswith(".py"):
        item = load_file(Path(reference))
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
