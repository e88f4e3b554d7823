"""Formulation files whose code raises or times out in one of its steps."""

from __future__ import annotations

from pathlib import Path

STEPS = ("import", "restricts", "unsupported", "build", "scale", "encode", "decode")

FILE = '''"""A formulation that does something in the step {step!r}."""

from dataclasses import replace

from milp_plan.models.registry import get

INNER = get({inner!r}).formulation


def bad_end():
    {code}


def at(step):
    if step == {step!r}:
        bad_end()


class Bad:
    card = replace(INNER.card, name="bad")
    handles = INNER.handles
    Options = INNER.Options


for step in {steps!r}:
    def asked(self, *given, step=step):
        at(step)
        return getattr(INNER, step)(*given)

    setattr(Bad, step, asked)

FORMULATION = Bad()
at("import")
'''

LOOP = "while True: pass"
RAISE = "raise ValueError('it does not add up')"
EXIT = "import sys; sys.exit(3)"
HARD_EXIT = "import os; os._exit(0)"
SEGMENTATION = "import ctypes; ctypes.string_at(0)"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
MEMORY_ERROR = "raise MemoryError"
ALLOCATE = "held = [bytearray(2**26) for _ in range(10**9)]"
NOTHING = "pass"


def write_bad(folder: Path, step: str, code: str, inner: str = "operator_schedule") -> str:
    """Write such a file as ``bad.py``, around one of ours; return its path."""
    path = folder / "bad.py"
    path.write_text(FILE.format(step=step, code=code, steps=STEPS[1:], inner=inner))
    return str(path)
