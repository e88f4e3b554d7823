"""Loops compiled by numba, and kept on disk; imported only where they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function) -> _Function:
    """Compile a function of numbers and arrays on its first call; releases the GIL."""
    return cast(_Function, numba.njit(cache=True, nogil=True)(function))
