"""A user's model that fails: which module, which operator, which line of the user's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from milp_plan.core import Finding, InputError, MilpPlanError

RUNS = "a model that PyTorch runs"
"""What is expected of a model when it is not only captured."""


def where_it_stops(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Run a module once more; return path and function where it stops, nothing if it does not."""
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
    """Run a model; what it raises becomes one finding.

    Parameters
    ----------
    text
        How the user named the model.
    doing
        What runs, for failures that its forward pass alone does not show.
    model
        The module, and its inputs by place and by name.
    dtype
        Type of numbers that was asked for.

    Raises
    ------
    InputError
        It fails; names module, operator and line.
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
    """Return one finding of a long message of PyTorch about a model that it ran.

    Parameters
    ----------
    text
        How the user named the model.
    where, operator
        Module, or what was going on, and the function that failed.
    error
        What was raised.
    dtype
        Type of numbers that was asked for.
    """
    found = f"{type(error).__name__}: {first_line(error)}{source_line(error, text)}"
    if operator:
        found = f"{found}, in {operator}"
    remedy = "correct model or inputs: without any plan it fails as well"
    if dtype is not None:
        remedy = f"leave --dtype {dtype} out if it lacks that type, or correct model or inputs"
    return InputError([Finding(where, found, RUNS, remedy, text)])


def first_line(error: BaseException) -> str:
    """What an error says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else "without a message"


def source_line(error: BaseException, text: str) -> str:
    """Innermost line of the user's file in a traceback, as words."""
    file, line = text.rpartition(":")[0] or text, None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"
