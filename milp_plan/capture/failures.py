"""Explains failures of a user's model: module, operator, and line of the user's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from milp_plan.core import Finding, InputError, MilpPlanError

RUNS = "a model that PyTorch runs"
"""Expectation of a model when it is not only captured."""


def where_it_stops(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Run a module once more; return path and function of the failure, empty without one."""
    import torch

    paths = {part: name for name, part in module.named_modules()}
    inside: list[str] = []
    functions: list[str] = []

    class Watch(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            functions.append(str(getattr(function, "__name__", function)))
            return function(*args, **(kwargs or {}))

    hooks = [
        hook
        for part in module.modules()
        for hook in (
            part.register_forward_pre_hook(lambda m, _a: inside.append(paths[m])),
            part.register_forward_hook(lambda _m, _a, _o: inside.pop() and None),
        )
    ]
    try:
        with Watch():
            module(*args, **kwargs)
    except Exception:
        return (inside[-1] if inside else ""), functions[-1] if functions else ""
    finally:
        for hook in hooks:
            hook.remove()
    return "", ""


@contextmanager
def errors_as_findings(
    text: str, doing: str, model: tuple[Any, tuple[Any, ...], dict[str, Any]], dtype: str | None
) -> Iterator[None]:
    """Run a model; turn its exception into one finding.

    Parameters
    ----------
    text
        User's name of the model.
    doing
        Name of the step, for failures that its forward pass alone does not show.
    model
        The module, and its inputs by position and by name.
    dtype
        Requested type of numbers.

    Raises
    ------
    InputError
        The model fails; the error names module, operator and line.
    """
    try:
        yield
    except MilpPlanError:
        raise
    except Exception as error:
        module, operator = where_it_stops(*model)
        where = f"module {module!r}" if module else "the model itself" if operator else doing
        raise not_run(text, where, error, operator=operator, dtype=dtype) from error


def not_run(
    text: str, where: str, error: Exception, *, operator: str = "", dtype: str | None = None
) -> InputError:
    """Return a long message of PyTorch about a model that it ran as one finding.

    Parameters
    ----------
    text
        User's name of the model.
    where, operator
        Module or step, and the function that failed.
    error
        The exception.
    dtype
        Requested type of numbers.
    """
    found = f"{type(error).__name__}: {first_line(error)}{source_line(error, text)}"
    if operator:
        found = f"{found}, in {operator}"
    remedy = "correct model or inputs: without any plan it fails as well"
    if dtype is not None:
        remedy = f"leave --dtype {dtype} out if it lacks that type, or correct model or inputs"
    return InputError([Finding(where, found, RUNS, remedy, text)])


def first_line(error: BaseException) -> str:
    """Return the first line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else "without a message"


def source_line(error: BaseException, text: str) -> str:
    """Return the innermost line of the user's file in a traceback, as text."""
    file, line = text.rpartition(":")[0] or text, None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"
