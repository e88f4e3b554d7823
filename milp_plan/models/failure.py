"""Failures of a formulation's own code, in one sentence."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milp_plan.core import FormulationError, FormulationFailureError


class InvalidAnswerError(ValueError):
    """A formulation returns what is no answer, such as NaN; the message is shown as it is."""


LONGEST_MESSAGE = 300
"""Characters of an exception's message that are shown."""


def sentence(name: str, file: str, step: str, words: str) -> str:
    """Return a sentence on a step of a formulation."""
    place = f" ({file})" if file else ""
    return f"formulation {name!r}{place}: {step} {words}"


def raised(error: BaseException, *sources: Path) -> str:
    """Return what was raised, and where in the formulation's files or folders."""
    message = " ".join(str(error).split())[:LONGEST_MESSAGE]
    said = f"raised {type(error).__name__}" + (f": {message}" if message else "")
    if isinstance(error, SyntaxError):
        return said  # its message names the line
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if not {file, *file.parents}.isdisjoint(sources):
            return f"{said} (line {frame.lineno} of {file.name})"
    return said


def shipped_folders() -> tuple[Path, ...]:
    """Folders of formulations that come with the package: a checkout, or the wheel's data."""
    package = Path(__file__).resolve().parent.parent
    return tuple(
        folder
        for folder in (package.parent / "formulations", package / "_data" / "formulations")
        if folder.is_dir()
    )


@contextmanager
def step(name: str, called: str) -> Iterator[None]:
    """Turn whatever a formulation raises in this process into a failure of a step.

    Raises
    ------
    FormulationFailureError
        Something was raised inside.
    FormulationError
        It refuses to decode a solution.
    """
    try:
        yield
    except FormulationFailureError:
        raise
    except MemoryError as error:
        words = "ran out of memory"
        raise FormulationFailureError(sentence(name, "", called, words), "memory_limit") from error
    except InvalidAnswerError as error:
        raise FormulationFailureError(sentence(name, "", called, str(error)), "error") from error
    except Exception as error:  # whatever its code does wrong, the run goes on without it
        if called == "decode" and isinstance(error, FormulationError):
            raise
        words = raised(error, *shipped_folders())
        raise FormulationFailureError(sentence(name, "", called, words), "error") from error
