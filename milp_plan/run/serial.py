"""Planning under the serial law: which way for which law."""

from __future__ import annotations

from milp_plan.core import Contiguity, SerialLaw, UnsupportedProblemError
from milp_plan.serial import read_serial

from .host import Host

FREE, CHAIN, CALLS = "max_load", "contiguous_load", "latency"
"""Formulations of bottleneck problems without and with contiguity, and of latency."""


def formulation_of(law: SerialLaw) -> str:
    """Return the name of the formulation that suits a law."""
    if law.calls is not None:
        return CALLS
    return CHAIN if law.contiguity is Contiguity.CHAIN else FREE


def plan_serial(host: Host) -> None:
    """Plan the host's problem, which is under the serial law.

    Raises
    ------
    UnsupportedProblemError
        The problem cannot be read as a hypergraph of classes; says why.
    """
    graph = read_serial(host.problem)
    if isinstance(graph, str):
        raise UnsupportedProblemError(f"{host.problem.name}: {graph}")
    if host.settings.start is not None:
        host.check_start(host.settings.start)
    if graph.law.calls is not None:
        from .latency import LatencyRun

        LatencyRun(host, graph).stages()
    elif graph.law.contiguity is Contiguity.CHAIN:
        from .contiguous import ContiguousRun

        ContiguousRun(host, graph).stages()
    else:
        from .max_load import MaxLoadRun

        MaxLoadRun(host, graph).stages()
