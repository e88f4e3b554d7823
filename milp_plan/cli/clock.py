"""When the process started: loading Python and its packages takes seconds of a time limit, too."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_TICKS = 19
"""Field of ``/proc/self/stat`` behind the name of the program; see proc(5), ``starttime``."""


def started(stat: Path = Path("/proc/self/stat")) -> float:
    """Return when the process started, on the clock of ``time.perf_counter``.

    Where the system does not say: so long ago as the process has used the processor.
    """
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        born = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - born
    except (OSError, ValueError, IndexError, AttributeError):
        age = time.process_time()
    return time.perf_counter() - max(0.0, age)
