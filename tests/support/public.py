"""Public benchmark files: in the folder that ``MILP_PLAN_BENCHMARKS`` names, never in the tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PUBLIC = Path(os.environ.get("MILP_PLAN_BENCHMARKS", "/MILP_PLAN_BENCHMARKS is not set"))
"""Where they are; nothing is there where the variable is not set."""


def needs_public(name: str) -> pytest.MarkDecorator:
    """The mark of a test that reads a public file or folder."""
    return pytest.mark.skipif(not (PUBLIC / name).exists(), reason=_absent(name))


def public_file(name: str) -> Path:
    """Where a public file is; the test is skipped where it is not there."""
    path = PUBLIC / name
    if not path.exists():
        pytest.skip(_absent(name))
    return path


def _absent(name: str) -> str:
    return (
        f"the public benchmark {name} is not shipped: set MILP_PLAN_BENCHMARKS to a folder that"
        " holds it"
    )
