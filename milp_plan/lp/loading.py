"""Loads Pyomo without modules of SciPy that linear models do not use."""

from __future__ import annotations

import sys
from types import ModuleType

import scipy.sparse  # noqa: F401  what of SciPy is loaded, Pyomo settles at once

SPARED = ("scipy.stats", "scipy.integrate", "scipy.spatial")


def load_pyomo() -> None:
    """Import Pyomo in less than half of the usual time.

    It imports statistics, integration and geometry where SciPy is there, and with them most of the
    rest. Who asks for these modules later gets them.
    """
    if "pyomo" in sys.modules:
        return
    spared = [name for name in SPARED if name not in sys.modules]
    sys.modules.update({name: ModuleType(name) for name in spared})
    try:
        import pyomo.environ  # noqa: F401
    finally:
        for name in spared:
            del sys.modules[name]
