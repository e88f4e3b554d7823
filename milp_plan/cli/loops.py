"""``compile``: have the compiled loops ready before the first run needs them."""

from __future__ import annotations

import click

from milp_plan.core.budget import now

from .output import note


@click.command("compile")
def compile_() -> None:
    """Compile the loops of searches and bounds, and keep them on disk.

    Takes a minute or two, once after installation. Without it the first run of each kind compiles
    what it needs, for some seconds of its time limit.
    """
    from milp_plan.run.loops import compile_loops

    began = now()
    compile_loops(lambda part: note(f"compiling: {part}"))
    note(f"all loops are compiled and kept, {now() - began:.0f} s")
