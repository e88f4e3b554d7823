"""Plans whose numbers are numpy's, as arrays give them, are written as those of Python."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from milp_plan.io.wire import encode
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import read
from tests.cli.test_kinds import SAMPLES


def of_numpy(item: Any) -> Any:
    """Return the same with each integer as one of numpy's."""
    if isinstance(item, int) and not isinstance(item, bool):
        return np.int64(item)
    if isinstance(item, tuple):
        return tuple(map(of_numpy, item))
    if is_dataclass(item) and not isinstance(item, type):
        there = {entry.name: getattr(item, entry.name) for entry in fields(item) if entry.init}
        return replace(item, **{name: of_numpy(value) for name, value in there.items()})
    return item


@pytest.mark.parametrize("name", SAMPLES)
def test_a_plan_of_any_kind(name: str, tmp_path: Path) -> None:
    kind, problem = read(SAMPLES[name].write(tmp_path))
    plan = solve(problem, Settings(time_limit_s=100.0, node_limit=50)).plan
    assert plan is not None
    assert kind.plan_text(of_numpy(plan)) == kind.plan_text(plan)


def test_what_is_no_number_is_refused_in_words() -> None:
    class Wire(msgspec.Struct):
        time: Any

    with pytest.raises(TypeError, match=r"complex128 .* cannot be written"):
        encode(Wire(np.complex128(1)))
    assert encode(Wire(np.bool_(True))) == b'{"time": true}\n'
    assert encode(Wire(np.uint64(2**63))) == f'{{"time": {Decimal(2) ** 63}}}\n'.encode()
