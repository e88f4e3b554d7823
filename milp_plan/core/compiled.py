"""Loops compiled by numba, and kept on disk; imported only where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from numba import config
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

_Function = TypeVar("_Function", bound=Callable[..., object])

OPTIONS = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True}


class _Loop(CPUDispatcher):  # type: ignore[misc]
    """A loop that is compiled once for all numbers of a type.

    Without it numba compiles a callee again for each constant it is called with: ``f(a, 0)`` and
    ``f(a, n)`` would be two, and so would be all that ``f`` calls with its argument.
    """

    def get_call_template(self, args: Sequence[Any], kws: dict[str, Any]) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template([unliteral(kind) for kind in args], plain)


def compiled(function: _Function) -> _Function:
    """Compile a function of numbers and arrays on its first call; releases the GIL."""
    if config.DISABLE_JIT:
        return function
    loop = _Loop(
        function, targetoptions={"nopython": True, "nogil": True, "no_cfunc_wrapper": True}
    )
    loop.enable_caching()
    return cast(_Function, loop)
