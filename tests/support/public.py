"""Public benchmark files: in the folder that ``MILP_PLAN_BENCHMARKS`` names, never in the tree."""

from __future__ import annotations

import os
from pathlib import Path

PUBLIC = Path(os.environ.get("MILP_PLAN_BENCHMARKS", "/MILP_PLAN_BENCHMARKS is not set"))
"""Where they are; nothing is there where the variable is not set."""
