"""The user's file: a function that builds a model and its example inputs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from milp_plan.core import BackendUnavailableError, Finding, InputError

EXAMPLE = "my_model.py:build"

TESTED = "2.13"
"""Release of PyTorch that this package is tested with."""

INNER = "module"
"""Name of the user's module inside the captured one."""

NO_TORCH = (
    f"PyTorch is not installed; pip install 'milp_plan[torch]' (tested with {TESTED}), or name a"
    " captured graph instead of a model"
)


@dataclass(frozen=True)
class Builder:
    """A function ``build() -> (module, args)`` of a file.

    Parameters
    ----------
    text
        User's text: ``my_model.py:build``.
    build
        The function.
    flops
        Operator -> function of its arguments (and ``out``) that returns its floating-point
        operations; the file's ``FLOPS``, where it has one.
    """

    text: str
    build: Callable[[], Any]
    flops: Mapping[str, Callable[..., int]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """Short name of file and function."""
        file, function = _parts(self.text)
        return Path(file).stem if function == "build" else f"{Path(file).stem}-{function}"


def load_builder(text: str) -> Builder:
    """Import a file and find its function: ``FILE.py:FUNCTION``, or ``FILE.py`` for ``build``.

    Raises
    ------
    InputError
        There is no such file or function, or the file's own code fails.
    BackendUnavailableError
        It imports PyTorch, which is not installed.
    """
    file, function = _parts(text)
    path = Path(file)
    if not path.is_file():
        raise _error(text, "no such file", f"a Python file, as in {EXAMPLE}", "check the path")
    module = _imported(path, text)
    build = getattr(module, function, None)
    if not callable(build):
        known = [name for name, item in vars(module).items() if _is_own(item, module)]
        found = f"no function {function!r}"
        raise _error(text, found, f"one of {', '.join(known) or 'its functions'}", "name another")
    flops = getattr(module, "FLOPS", {})
    if not isinstance(flops, Mapping) or not all(callable(entry) for entry in flops.values()):
        remedy = 'write for example FLOPS = {"mylib.op": lambda x, out: 2 * out.numel()}'
        raise _error(text, "FLOPS of another form", "operators with functions", remedy)
    return Builder(text, build, {_dotted(name): entry for name, entry in flops.items()})


def _parts(text: str) -> tuple[str, str]:
    if text.endswith(".py"):
        return text, "build"
    file, colon, function = text.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        remedy = "name the file and the function"
        raise _error(text, repr(text), f"FILE.py:FUNCTION, as in {EXAMPLE}", remedy)
    return file, function


def _imported(path: Path, text: str) -> Any:
    """Run the file; like a script, it may import its neighbours."""
    folder = str(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if before is not None:
            sys.modules[path.stem] = before
        if isinstance(error, ImportError) and error.name == "torch":
            raise BackendUnavailableError(NO_TORCH) from error
        found = f"{type(error).__name__}: {error}"
        raise _error(text, found, "a file that can be imported", "correct the file") from error
    finally:
        sys.path.remove(folder)
    return module


def _is_own(item: Any, module: Any) -> bool:
    return callable(item) and getattr(item, "__module__", "") == module.__name__


def _dotted(operator: str) -> str:
    return operator.replace("::", ".")


def _error(text: str, found: str, expected: str, remedy: str) -> InputError:
    return InputError([Finding("model", found, expected, remedy, text)])
