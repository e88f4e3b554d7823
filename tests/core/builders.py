"""Short words for small graphs and clusters."""

from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    Value,
)


def operator(name, *options, **rest):
    """Return an operator that lasts 10 ticks on class ``c``, or one with these options."""
    return Operator(name, options or (Option("o", {"c": 10}),), **rest)


def value(name, producer, consumers, **rest):
    """Return a value of 8 bytes; consumers like ``"b c"``."""
    rest.setdefault("bytes", {FULL: 8})
    return Value(name, producer, tuple(consumers.split()), **rest)


def graph(names, *values):
    """Return a graph of plain operators, named like ``"a b c"``, or given as they are."""
    operators = [operator(name) for name in names.split()] if isinstance(names, str) else names
    return ComputationGraph(tuple(operators), values)


def cluster(**changes):
    """Return two devices of class ``c``, joined both ways, in one group."""
    parts = {
        "device_classes": (DeviceClass("c", 100),),
        "devices": (Device("d0", "c", 100), Device("d1", "c", None)),
        "channels": (Channel("d0", "d1", 2, 10**9), Channel("d1", "d0", 2, 10**9)),
        "groups": (("d0", "d1"),),
    }
    return Cluster(**{**parts, **changes})
