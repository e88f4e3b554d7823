"""Contraction of clusters of operators into one operator each, with the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from milp_plan.core import (
    FULL,
    ComputationGraph,
    Finding,
    InputError,
    MemoryLaw,
    Operator,
    Option,
    Plan,
    PlanningProblem,
    Value,
)

from .bundles import Bundle, Profile, channels_ordered, group_values
from .composite import (
    Layouts,
    OptionChoice,
    as_option,
    layouts,
    unique,
    usable,
    workspace_bytes,
)
from .expansion import Expansion
from .options import undominated
from .reduction import Reduction

CLUSTER_KIND = "cluster"
"""Kind of a coarse operator whose members are of several kinds."""


@dataclass(frozen=True)
class Members:
    """One cluster: its coarse name, its members in order, its choices with their layouts."""

    name: str
    members: tuple[str, ...]
    variants: tuple[tuple[OptionChoice, Layouts], ...]


def contract(
    problem: PlanningProblem,
    clusters: Sequence[Sequence[str]],
    *,
    name: str,
    exact: bool = False,
    choices: Mapping[str, Sequence[OptionChoice]] | None = None,
    bundle_transfers: bool = True,
) -> Reduction:
    """Make one operator of every cluster.

    A cluster's members run one after the other, in the order given, from the start of the coarse
    operator, all on its site. Values inside turn into workspace, results stay values, values
    between clusters are bundled (:func:`.group_values`), colocation groups
    that share a cluster are joined. A cluster may run again if all its members may; where anything
    may, or values may wait on a host, nothing that travels is bundled.
    :class:`milp_plan.kinds.schedule.coarsen.expansion.Expansion` proves that plans come back valid.

    Parameters
    ----------
    problem
        The problem to contract.
    clusters
        Operator names in running order, which respects precedence; disjoint, and such that the
        graph of clusters has no cycle. Operators in none of them stay alone.
    name, exact
        What the reduction is called and claims; the caller has the proof.
    choices
        First member of a cluster -> choices to offer; where not given,
        :func:`milp_plan.kinds.schedule.coarsen.composite.candidate_choices`.
    bundle_transfers
        Whether values that travel may be bundled. Bundles of persistent values are always made:
        their parts lie on the same devices in every plan.

    Raises
    ------
    ValueError
        A cluster has no choice whose layouts fit together.
    InputError
        The clusters leave a cycle, or joined groups without a common site.
    """
    parts = _parts(problem, clusters, choices or {})
    owner = {member: i for i, part in enumerate(parts) for member in part.members}
    once = not problem.allows_memory_saving
    bundles = _bundles(problem, parts, owner, bundle_transfers and once)
    coarse_of = {value.name: bundle.name for bundle in bundles for value in bundle.parts}
    sole = {
        value.name
        for bundle in bundles
        if once and bundle.producer is not None and len(bundle.readers) == 1
        for value in bundle.parts
        if not value.is_kept
    }
    groups = _joined_groups(problem.graph, parts)
    operators: list[Operator] = []
    chosen: dict[tuple[str, str], tuple[str, ...]] = {}
    for part in parts:
        options = _options(problem, part, coarse_of, sole)
        for option in options:
            variant = next(c for c, _ in part.variants if c.name == option.name)
            chosen[part.name, option.name] = tuple(o.name for o in variant.options)
        operators.append(_operator(problem.graph, part, tuple(options), groups))
    names = [part.name for part in parts]
    graph = ComputationGraph(tuple(operators), tuple(b.as_value(names) for b in bundles))
    after = replace(problem, name=_renamed(problem.name, len(parts)), graph=graph)
    if after.unplaced is not None and problem.unplaced is None:
        result = [Finding("clusters", after.unplaced.reason, "a site for each", "join fewer")]
        raise InputError(result)
    members = {part.name: part.members for part in parts}
    travels = {b.name: tuple(value.name for value in b.parts) for b in bundles}
    expansion = Expansion(problem, members, chosen, travels)

    def project(plan: Plan) -> Plan | None:
        return expansion.project(plan, after)

    return Reduction(name, exact, problem, after, expansion.undo, members, project)


def _parts(
    problem: PlanningProblem,
    clusters: Sequence[Sequence[str]],
    choices: Mapping[str, Sequence[OptionChoice]],
) -> list[Members]:
    """Return clusters and lone operators by their earliest members in topological order."""
    order = {name: i for i, name in enumerate(problem.graph.topological_order)}
    grouped = [tuple(cluster) for cluster in clusters]
    inside = {member for cluster in grouped for member in cluster}
    grouped += [(name,) for name in order if name not in inside]
    grouped.sort(key=lambda cluster: min(order[name] for name in cluster))
    taken = {cluster[0] for cluster in grouped if len(cluster) == 1}
    parts = []
    for cluster in grouped:
        name = cluster[0]
        if len(cluster) > 1:
            name = unique(f"{_stem(name)}+{len(cluster) - 1}", taken)
        given = choices.get(cluster[0])
        if given is None:
            variants = usable(problem, cluster)
        else:
            fitted = [(choice, layouts(problem.graph, cluster, choice)) for choice in given]
            variants = [(choice, border) for choice, border in fitted if border is not None]
        if not variants:
            raise ValueError(f"cluster {list(cluster)} has no choice of options that fit together")
        parts.append(Members(name, cluster, tuple(variants)))
    return parts


def _stem(name: str) -> str:
    """Return a name without the count that an earlier contraction appended."""
    stem, plus, count = name.rpartition("+")
    return stem if plus and count.isdigit() else name


def _renamed(name: str, count: int) -> str:
    return f"{name.split('~', 1)[0]}~{count}"


def _bundles(
    problem: PlanningProblem,
    parts: Sequence[Members],
    owner: Mapping[str, int],
    transfers: bool,
) -> list[Bundle]:
    keep_inside = problem.memory_law is MemoryLaw.STATIC
    values = [
        value
        for value in problem.graph.values
        if keep_inside
        or value.producer is None
        or value.is_kept
        or any(owner[consumer] != owner[value.producer] for consumer in value.consumers)
    ]
    profiles = {value.name: _profile(value, parts, owner) for value in values}
    gangs = any(choice.gang > 1 for part in parts for choice, _ in part.variants)
    mixed = gangs and not channels_ordered(problem.cluster)
    taken: set[str] = set()
    bundles = []
    result = group_values(values, owner, profiles, transfers, mixed)
    taken.update(bundle.name for bundle in result if len(bundle.parts) == 1)
    for bundle in result:
        if len(bundle.parts) > 1:
            title = unique(f"{_stem(bundle.name)}+{len(bundle.parts) - 1}", taken)
            bundles.append(replace(bundle, name=title))
        else:
            bundles.append(bundle)
    return bundles


def _profile(value: Value, parts: Sequence[Members], owner: Mapping[str, int]) -> Profile:
    result: list[str] = []
    if value.producer is not None:
        made = parts[owner[value.producer]]
        result += [border.writes[value.name] for _, border in made.variants]
    readers = dict.fromkeys(sorted(owner[consumer] for consumer in value.consumers))
    for reader in readers:
        if value.producer is None or reader != owner[value.producer]:
            result += [border.reads[value.name] for _, border in parts[reader].variants]
    return tuple(result)


def _options(
    problem: PlanningProblem,
    part: Members,
    coarse_of: Mapping[str, str],
    sole: set[str],
) -> list[Option]:
    """Return coarse options; those of a real cluster that another one dominates are removed."""
    made = {value.name for m in part.members for value in problem.graph.outputs[m]}
    held = {name for name in made if name in coarse_of}
    options = []
    for choice, border in part.variants:
        mine = {name for name in border.reads if name in sole}
        workspace = workspace_bytes(problem, part.members, choice, border, held | mine)
        reads = {coarse_of[name]: layout for name, layout in border.reads.items()}
        writes = {coarse_of[n]: layout for n, layout in border.writes.items() if n in coarse_of}
        options.append(as_option(problem, choice, workspace, _not_full(reads), _not_full(writes)))
    if len(part.members) == 1:
        return options
    border = part.variants[0][1]
    inputs = [coarse_of[name] for name in border.reads]
    return undominated(options, inputs, [coarse_of[name] for name in held])


def _not_full(table: Mapping[str, str]) -> dict[str, str]:
    return {name: layout for name, layout in table.items() if layout != FULL}


def _operator(
    graph: ComputationGraph,
    part: Members,
    options: tuple[Option, ...],
    groups: Mapping[str, str],
) -> Operator:
    members = [graph.operator(name) for name in part.members]
    group = next((groups[m.group] for m in members if m.group and m.group in groups), None)
    if len(members) == 1:
        if (members[0].options, members[0].group) == (options, group):
            return members[0]
        return replace(members[0], options=options, group=group)
    kinds = {member.kind for member in members}
    batches = {member.micro_batch for member in members}
    blocks = {member.block for member in members}
    return Operator(
        name=part.name,
        options=options,
        kind=kinds.pop() if len(kinds) == 1 else CLUSTER_KIND,
        group=group,
        micro_batch=batches.pop() if len(batches) == 1 else None,
        block=blocks.pop() if len(blocks) == 1 else None,
        recomputable=all(member.recomputable for member in members),
    )


def _joined_groups(graph: ComputationGraph, parts: Sequence[Members]) -> dict[str, str]:
    """Return group -> the group that replaces it; groups with one coarse operator are left out.

    One that may run again keeps its group: all its runs are on one site.
    """
    leader: dict[str, str] = {}

    def find(group: str) -> str:
        while leader.setdefault(group, group) != group:
            group = leader[group]
        return group

    touched: list[list[str]] = []
    for part in parts:
        groups = [graph.operator(member).group for member in part.members]
        touched.append(list(dict.fromkeys(group for group in groups if group is not None)))
        for other in touched[-1][1:]:
            first, second = find(touched[-1][0]), find(other)
            leader[max(first, second)] = min(first, second)
    count = Counter(find(groups[0]) for groups in touched if groups)
    for part, own in zip(parts, touched, strict=True):
        if own and any(graph.operator(member).recomputable for member in part.members):
            count[find(own[0])] += 1
    return {group: find(group) for group in leader if count[find(group)] > 1}
