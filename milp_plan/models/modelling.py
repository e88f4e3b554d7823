"""From what a formulation builds to a matrix."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from milp_plan.lp import CompiledModel


def compile_source(source: Any) -> CompiledModel:
    """Return what a formulation has built as a matrix."""
    if isinstance(source, CompiledModel):
        return source
    from milp_plan.lp.from_pyomo import compile_pyomo

    return compile_pyomo(source)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause cyclic garbage collection: it would walk a growing model again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
