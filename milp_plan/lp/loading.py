"""Pyomo, loaded without the statistics of SciPy."""

from __future__ import annotations

import sys
from types import ModuleType

import scipy.sparse  # noqa: F401  what of SciPy is loaded, Pyomo settles at once

SPARED = "scipy.stats"


def load_pyomo() -> None:
    """Import Pyomo, in two thirds of the time.

    It imports all of ``scipy.stats`` where SciPy is there, and no linear model uses it. Who asks
    for that module later gets it.
    """
    if "pyomo" in sys.modules or SPARED in sys.modules:
        return
    sys.modules[SPARED] = ModuleType(SPARED)
    try:
        import pyomo.environ  # noqa: F401
    finally:
        del sys.modules[SPARED]
