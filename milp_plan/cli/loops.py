"""``compile``: have the compiled loops ready before the first run needs them."""

from __future__ import annotations

import click

from .output import note


@click.command("compile")
def compile_() -> None:
    """Compile the loops of searches and bounds, and keep them on disk.

    Takes a minute or two, once after installation. Without it the first run of each kind compiles
    what it needs, for some seconds of its time limit.
    """
    import time

    from milp_plan.run.loops import compile_loops

    began = time.monotonic()
    compile_loops(lambda part: note(f"compiling: {part}"))
    note(f"all loops are compiled and kept, {time.monotonic() - began:.0f} s")
