"""The functions of the public interface, for problems of every kind; see :mod:`milp_plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from milp_plan.core import Cluster, Finding, InputError, UnusedOptionError, Verdict
from milp_plan.core.bound import Bound
from milp_plan.core.budget import LARGEST_SETTING
from milp_plan.core.shown import ShownPlan, remember
from milp_plan.io.defects import nearest
from milp_plan.run import Outcome, Settings, kind_of
from milp_plan.run import read as read_any
from milp_plan.run import solve as solve_any
from milp_plan.run.change import Change
from milp_plan.run.kinds import kinds
from milp_plan.run.kinds import read_plan as read_plan_of
from milp_plan.run.settings import AUTO, IncumbentHook, Progress, ProgressHook

from .given import (
    a_display,
    a_hook,
    a_mapping,
    a_path,
    a_plan,
    a_problem,
    several,
    texts,
    writing,
)
from .progress import chosen, to_stderr
from .quantities import count, flag, number, quoted, refuse, seconds, share, text

if TYPE_CHECKING:
    import pandas

    from milp_plan.cost.clusters import ModelledCluster


def read(path: str | Path, **changes: Any) -> Any:
    """Read a problem of any kind.

    Parameters
    ----------
    path
        File of any known format, compressed or not.
    changes
        Changes of what it says, by the names and in the forms of the command line:
        ``memory_scale="4/5"``, ``objective="bottleneck"``, ``devices=8``, ``recompute=True``,
        ``host="512GiB@25GB/s"``.

    Raises
    ------
    InputError
        The file is not what its format says; with every finding.

    Examples
    --------
    >>> import milp_plan as mp
    >>> mp.read("instances/gang-beats-single.json").name
    'gang-beats-single'
    """
    known = {change.name: change for kind in reversed(kinds()) for change in kind.changes}
    requested = {}
    for name, given in changes.items():
        if name not in known:
            found, expected = f"the change {name!r}", f"some of {', '.join(sorted(known))}"
            refuse("read", found, expected, nearest(name, known, "leave it out"))
        requested[name] = _change(known[name], given)
    return read_any(a_path(path, "read, path"), requested)[1]


def read_plan(path: str | Path, problem: Any, instance: str | Path = "") -> Any:
    """Read a plan of a problem; ``instance`` is the file of the problem, for formats that need it.

    Raises
    ------
    InputError
        The file is no plan, or one of another problem.
    """
    file, problem = a_path(path, "read_plan, path"), a_problem(problem, "read_plan, problem")
    of = a_path(instance, "read_plan, instance")
    return remember(read_plan_of(kind_of(problem), file, problem, of), problem)


def generate(
    architecture: str,
    cluster: str | Path | ModelledCluster,
    *,
    sharding: str | None = None,
    **options: Any,
) -> Any:
    """Return a problem made from a published architecture, like the command ``generate``.

    Parameters
    ----------
    architecture, cluster
        Such as ``"gpt2-small"`` and ``"4xA100"``; ``milp-plan list architectures`` and ``list
        clusters`` say what there is. A cluster may be a file that describes it, ``"mine.toml"``.
    sharding
        A mesh of all devices, such as ``"2x4"``, to choose strategies alone: a sharding problem.
    options
        As of :func:`milp_plan.zoo.generate`, with a mesh of :func:`milp_plan.zoo.shard`: ``mode``,
        ``batch``, ``micro_batches``, ``granularity``, ``blocks``, ``options``
        (splits of layers), ``meshes``,
        ``zero_levels``, ``optimizer``, ``memory_scale``, ``communication``, ``link``,
        ``objective``, ``name``.

    Raises
    ------
    InputError
        Anything unknown, or that does not go together.

    Examples
    --------
    >>> import milp_plan as mp
    >>> mp.generate("gpt-tiny", "2xA100", mode="inference", batch=1).name
    'gpt-tiny-inference-2xA100-b1'
    >>> len(mp.generate("gpt-tiny", "4xA100", sharding="2x2").operators)
    14
    """
    from milp_plan import zoo
    from milp_plan.cost.clusters import ModelledCluster
    from milp_plan.io.cluster_file import cluster_of

    from .model import a_cluster

    architecture = text(architecture, "generate, architecture")
    machines = cluster_of(a_cluster(cluster, "generate, cluster"))
    if isinstance(machines, Cluster) and not isinstance(machines, ModelledCluster):
        refuse("generate, cluster", quoted(cluster), "a cluster with rates", "name its file")
    make = zoo.generate if sharding is None else zoo.shard
    known = [p.name for p in signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    unknown = [name for name in options if name not in known]
    if unknown:
        what = "a placement problem" if sharding is None else "a sharding problem"
        expected = f"options of {what}: {', '.join(known)}"
        raise InputError(
            Finding("generate", repr(name), expected, nearest(name, known, "leave it out"))
            for name in unknown
        )
    given = {name: _generated(name, option) for name, option in options.items()}
    if sharding is not None:
        return zoo.shard(architecture, machines, text(sharding, "generate, sharding"), **given)
    return zoo.generate(architecture, machines, **given)


def solve(
    problem: Any,
    *,
    time_limit: Any = 60.0,
    display: bool | Literal["auto"] = "auto",
    on_incumbent: IncumbentHook | None = None,
    on_progress: ProgressHook | None = None,
    start: Any = None,
    hints: Sequence[Any] = (),
    seed: int = 0,
    threads: int | None = None,
    gap: float = 0.0,
    node_limit: int | None = None,
    rounds: int | None = None,
    target: int | None = None,
    formulation: str = AUTO,
    options: Mapping[str, Any] | None = None,
    solver: str = "highs",
    dask: str | None = None,
    only: bool = False,
    two_stage: bool | None = None,
) -> Outcome[Any, Any]:
    """Plan a problem of any kind.

    Ctrl-C, and ``KeyboardInterrupt`` raised by a callback, end the run with the best plan so far.

    Parameters
    ----------
    problem
        The problem; a :class:`milp_plan.Model` is built first.
    time_limit
        Seconds of wall-clock time for everything together, or a text such as ``"5min"``.
    display
        Whether to show progress: ``True``, ``False``, or ``"auto"`` where somebody looks on, on a
        terminal or in a notebook.
    on_incumbent
        Called with a :class:`milp_plan.Incumbent` for every plan that is better than all before.
    on_progress
        Called with a :class:`milp_plan.Progress` whenever something new is known.
    start
        A plan to start from. Where its times do not fit, or where it has places and order alone,
        they are recomputed; the outcome says so.
    hints
        Plans of similar problems, whose orders may be worth a try.
    seed, threads, gap, node_limit, rounds, target, formulation, options, solver, dask, only, \
    two_stage
        As in :class:`milp_plan.Settings`, and on the command line.

    Returns
    -------
    Outcome
        With plan, value, bound and gap, and why the run stopped; it shows itself in notebooks.

    Raises
    ------
    InputError
        An argument is not what it should be, or ``start`` names what the problem does not have.
    UnsupportedProblemError, FormulationError, BackendUnavailableError
        As of :func:`milp_plan.run.solve`.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> outcome = mp.solve(problem, time_limit="20s", seed=1)
    >>> outcome.value, outcome.bound, outcome.gap, outcome.proved
    (110, 110, 0.0, True)
    """
    problem = a_problem(problem, "solve, problem")
    kind = kind_of(problem)

    def of_kind(given: Any, where: str) -> Any:
        return a_plan(problem, given, where)

    settings = Settings(
        time_limit_s=seconds(time_limit, "solve, time_limit"),
        node_limit=_whole(node_limit, "node_limit"),
        rounds=_whole(rounds, "rounds", 0),
        gap=share(gap, "solve, gap"),
        seed=count(seed, "solve, seed", 0, LARGEST_SETTING),
        threads=_whole(threads, "threads"),
        target=_whole(target, "target"),
        formulation=text(formulation, "solve, formulation"),
        options=a_mapping(options, "solve, options"),
        start=None if start is None else of_kind(start, "solve, start"),
        hints=tuple(several(hints, "solve, hints", f"plans of {kind.name} problems", of_kind)),
        solver=text(solver, "solve, solver"),
        dask=None if dask is None else text(dask, "solve, dask"),
        only=flag(only, "solve, only"),
        two_stage=None if two_stage is None else flag(two_stage, "solve, two_stage"),
    )
    on_progress = a_hook(on_progress, "solve, on_progress")
    on_incumbent = a_hook(on_incumbent, "solve, on_incumbent")
    with chosen(problem, a_display(display, "solve, display"), to_stderr) as show:

        def report(progress: Progress) -> None:
            show(progress)
            if on_progress is not None:
                on_progress(progress)

        try:
            outcome = solve_any(problem, settings, report, on_incumbent=on_incumbent)
        except UnusedOptionError as error:
            raise error.named(lambda name: f"solve, {name.removesuffix('_s')}") from None
    remember(outcome.plan, problem)
    return outcome


def check(problem: Any, plan: Any) -> Verdict:
    """Check a plan against every law, and recompute its value; never raises on a plan.

    Raises
    ------
    InputError
        It is no plan of this kind of problem, or there is no problem.
    """
    problem = a_problem(problem, "check, problem")
    return kind_of(problem).verify(problem, a_plan(problem, plan, "check, plan"))


def bound(
    problem: Any, time_limit: Any = 10.0, *, display: bool | Literal["auto"] = "auto"
) -> Bound | None:
    """Return the best bound that a run proves in some time; ``None`` if there is none.

    A problem without any plan has no bound worth the name: ask :func:`solve` for the proof.
    """
    limit = seconds(time_limit, "bound, time_limit")
    problem = a_problem(problem, "bound, problem")
    with chosen(problem, a_display(display, "bound, display"), to_stderr) as show:
        from milp_plan.run.bounding import find_bounds

        return next(iter(find_bounds(problem, limit, show).bounds), None)


def draw(problem: Any, plan: Any, path: str | Path | None = None) -> Any:
    """Return the picture of a plan (``matplotlib.figure.Figure``); write it if a path is given.

    Raises
    ------
    UnsupportedProblemError
        There is no picture of this kind of problem.
    BackendUnavailableError
        matplotlib is not installed.
    """
    problem = a_problem(problem, "draw, problem")
    file = None if path is None else a_path(path, "draw, path")
    figure = kind_of(problem).draw(problem, a_plan(problem, plan, "draw, plan"))
    if file is not None:
        from milp_plan.draw.canvas import write_figure

        with writing(file, "draw, path"):
            write_figure(figure, file)
    return figure


def to_frame(problem: Any, plan: Any) -> pandas.DataFrame:
    """Return a plan as a table with a row for each decision.

    Columns depend on the kind of problem; times are ticks, sizes are bytes, exact. Operators run
    and values travel; buffers have offsets; jobs have units; layers have stages.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> frame = mp.to_frame(problem, mp.solve(problem, time_limit=20).plan)
    >>> list(frame["stop_ticks"] - frame["start_ticks"])
    [55, 55]
    """
    import pandas

    problem = None if problem is None else a_problem(problem, "to_frame, problem")
    plan = a_plan(problem, plan, "to_frame, plan")
    kind = plan_kind(plan) if problem is None else kind_of(problem)
    return pandas.DataFrame.from_records(list(kind.plan_rows(problem, plan)))


def write(item: Any, path: str | Path, format_name: str | None = None) -> None:
    """Write a problem or a plan; a suffix ``.gz`` compresses it.

    Parameters
    ----------
    item
        A problem or a model, or a plan, which has one format.
    path
        The file; it appears at once and complete.
    format_name
        Of the formats of its kind of problem; the first that can be written unless it is given.

    Raises
    ------
    InputError
        It is neither a problem nor a plan, the kind has no such format, or the file cannot be
        written.
    """
    from milp_plan.io.files import write_document

    file = a_path(path, "write, path")
    if isinstance(item, ShownPlan):
        if format_name is not None:
            refuse("write, format_name", quoted(format_name), "None: plans have one format")
        data = plan_kind(item).plan_text(item)
    else:
        problem = a_problem(item, "write, item")
        known = {e.name: e.write for e in kind_of(problem).formats() if e.write is not None}
        name = next(iter(known), None) if format_name is None else format_name
        if not isinstance(name, str) or name not in known:
            expected = f"a format of {kind_of(problem).name} problems: {', '.join(known)}"
            refuse("write, format_name", quoted(name), expected, "choose one of these")
        data = known[name](problem)
    with writing(file, "write, path"):
        write_document(file, data)


def plan_kind(plan: Any) -> Any:
    """Return the kind that a plan belongs to.

    Raises
    ------
    TypeError
        It is no plan.
    """
    for kind in kinds():
        if kind.owns_plan(plan):
            return kind
    raise TypeError(f"{type(plan).__name__} is no plan of a known kind")


def _change(change: Change, given: Any) -> Any:
    """Return the value of a change, from a number or from a text of the command line."""
    where = f"read, {change.name}"
    if given is None:
        return None
    if change.read is None:
        return flag(given, where)
    if isinstance(given, tuple) and given and all(isinstance(part, Real) for part in given):
        return given
    if isinstance(given, bool) or not isinstance(given, str | Decimal | Real):
        refuse(where, quoted(given), f"{change.form} ({change.help})")
    try:
        return change.read(str(given))
    except ValueError as error:
        refuse(where, quoted(given), f"{change.form} ({change.help})", str(error))


def _whole(given: Any, name: str, least: int = 1) -> int | None:
    return None if given is None else count(given, f"solve, {name}", least, LARGEST_SETTING)


_MOST = {"batch": LARGEST_SETTING, "micro_batches": 10_000, "blocks": 10_000}
"""Largest counts of an architecture, with which it can be built in reasonable time."""


def _generated(name: str, given: Any) -> Any:
    """Return an option of an architecture; the architecture itself refuses unknown names."""
    where = f"generate, {name}"
    if given is None and name in ("blocks", "communication", "link", "name"):
        return None
    if name in _MOST:
        return count(given, where, 1, _MOST[name])
    if name in ("options", "meshes"):
        return tuple(texts(given, where))
    if name == "zero_levels":
        return tuple(several(given, where, "whole numbers", lambda one, at: count(one, at, 0)))
    if name == "memory_scale":
        return given if isinstance(given, str) else number(given, where, "a factor, such as 0.8")
    return text(given, where)
