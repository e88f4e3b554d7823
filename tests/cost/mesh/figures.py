"""A device and links with round figures: a byte a tick on x, ten ticks to begin with."""

from milp_plan.cost.devices import DeviceSpec, LinkSpec
from milp_plan.cost.mesh import Mesh, mesh

UNIT = LinkSpec("unit", 10**9, 10, 1000)
SLOW = LinkSpec("slow", 10**8, 100, 1000)
ROUND = DeviceSpec("round", 10**12, 10**12, 10**9, 1000, 1000, 5, "NVLink3", "HDR")


def line(size: int) -> Mesh:
    return mesh(str(size), ROUND, (UNIT,))


def grid(text: str) -> Mesh:
    """The outer axis x is slow, y inside is fast."""
    return mesh(text, ROUND, (SLOW, UNIT))
