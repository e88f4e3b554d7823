"""``compile``: compiles loops before the first run needs them."""

from __future__ import annotations

import os

import click

from milp_plan.core.budget import now

from .output import note


@click.command("compile")
def compile_() -> None:
    """Compile the loops of searches and bounds, and store them on disk.

    Takes a minute or two, once after installation, on all processors. Without it the first run of
    each kind compiles what it needs, for some seconds of its time limit.
    """
    from milp_plan.run.loops import compile_loops

    began = now()
    compile_loops(lambda part: note(f"compiled: {part}"), os.cpu_count() or 1)
    note(f"all loops are compiled and stored, {now() - began:.0f} s")
