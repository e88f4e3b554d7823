"""Words for hand-made problems and plans.

Unless a test says otherwise: one device class ``c``; every pair of devices joined both ways with
latency 2 and one byte per tick, so that n bytes travel for n + 2 ticks; operators last 10 ticks.
"""

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)


def op(name, ns=10, *, options=None, **rest):
    """Return an operator with one option ``o``, or with the options given."""
    return Operator(name, options or (option(ns=ns),), **rest)


def option(name="o", ns=10, **rest):
    """Return an option; ``ns`` is its duration on class ``c`` or a table."""
    return Option(name, ns if isinstance(ns, dict) else {"c": ns}, **rest)


def value(name, producer, consumers, size=8, **rest):
    """Return a value; ``size`` is its bytes in full or a table; consumers like ``"b c"``."""
    table = size if isinstance(size, dict) else {FULL: size}
    return Value(name, producer, tuple(consumers.split()), table, **rest)


def cluster(names="d0 d1", *, memory=None, groups="", model=CommunicationModel.CHANNEL, gaps=()):
    """Return a cluster; groups like ``"d0+d1 d2+d3"``; ``gaps`` are pairs without a channel."""
    devices = names.split()
    return Cluster(
        (DeviceClass("c", memory),),
        tuple(Device(name, "c", memory) for name in devices),
        tuple(
            Channel(a, b, 2, 10**9)
            for a in devices
            for b in devices
            if a != b and (a, b) not in gaps
        ),
        tuple(tuple(group.split("+")) for group in groups.split()),
        CommunicationModel(model),
    )


def problem(operators, values=(), where=None, **rest):
    """Return a problem named ``p``; ``operators`` may be names like ``"a b"``."""
    if isinstance(operators, str):
        operators = [op(name) for name in operators.split()]
    graph = ComputationGraph(tuple(operators), tuple(values))
    return PlanningProblem("p", graph, where or cluster(), **rest)


def run(operator, devices, start=None, stop=None, option="o"):
    """Return a run; devices like ``"d0+d1"``; it lasts 10 ticks where no stop is given."""
    if start is not None and stop is None:
        stop = start + 10
    return OperatorRun(operator, option, tuple(devices.split("+")), start, stop)


def send(name, source, target, start=None, stop=None, layout=FULL):
    """Return a transfer; it lasts 10 ticks (8 bytes) where no stop is given."""
    if start is not None and stop is None:
        stop = start + 10
    return Transfer(name, tuple(source.split("+")), tuple(target.split("+")), layout, start, stop)


def plan(*tasks, **rest):
    """Return a plan of ``p`` from runs and transfers in any order."""
    return Plan(
        "p",
        tuple(task for task in tasks if isinstance(task, OperatorRun)),
        tuple(task for task in tasks if isinstance(task, Transfer)),
        **rest,
    )


def broken(a_problem, a_plan):
    """Return the rules a plan breaks, one entry per violation."""
    return [violation.rule for violation in verify(a_problem, a_plan).violations]


def messages(a_problem, a_plan):
    """Return every message of a verdict, one per line."""
    return "\n".join(str(violation) for violation in verify(a_problem, a_plan).violations)


def lazy():
    """Six operators one after the other on one of two devices: 60 ticks, where 30 are enough."""
    names = "abcdef"
    runs = [run(name, "d0", 10 * n) for n, name in enumerate(names)]
    return problem([op(name) for name in names]), plan(*runs)
