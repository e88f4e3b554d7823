"""Loops of all kinds, compiled in advance and stored on disk.

A loop is compiled when it is first called, which takes seconds of the time limit of that run.
:func:`compile_loops` does it in advance.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from .kinds import kind_modules
from .loop_parts import LoopPart


def loop_parts() -> tuple[LoopPart, ...]:
    """Return the parts of every kind, in the order of the kinds."""
    return tuple(part for module in kind_modules("loops") for part in module.PARTS)


def compile_loops(on_part: Callable[[str], None] = lambda _: None, workers: int = 1) -> None:
    """Call every compiled loop once, so that it is compiled and stored on disk.

    Parameters
    ----------
    on_part
        Called with the name of each part: before it is compiled or, with several workers,
        afterwards.
    workers
        Number of processes that compile in parallel.
    """
    if workers == 1:
        for part in loop_parts():
            on_part(part.name)
            part.compile()
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        parts = {pool.submit(part.compile): part.name for part in loop_parts()}
        for done in as_completed(parts):
            done.result()
            on_part(parts[done])
