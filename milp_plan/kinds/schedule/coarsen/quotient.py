"""A graph of clusters that are merged one by one, with paths, groups, sites and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from milp_plan.core import FULL, OperatorRun, Option, PlanningProblem, Value

from .composite import usable, workspace_bytes
from .nodes import Caps, Component, Node


class Quotient:
    """Clusters of a problem's operators; starts with each operator alone.

    Parameters
    ----------
    problem
        The problem to cluster.
    guide
        A run of each operator in some plan, with times. Its order on each device then counts as
        precedence, travel counts between its sites, and only clusters of one site belong
        together; so what is left of the guide after merging is a plan of known length.
    """

    def __init__(
        self, problem: PlanningProblem, guide: Mapping[str, OperatorRun] | None = None
    ) -> None:
        self.problem = problem
        self.guide = guide
        order = problem.graph.topological_order
        if guide is not None:
            place = {name: i for i, name in enumerate(order)}
            order = tuple(sorted(order, key=lambda name: (*_times(guide[name]), place[name])))
        self.names = order
        self._site_bits = {
            site: 1 << i
            for i, site in enumerate(
                site
                for gang in sorted({o.gang for op in problem.graph.operators for o in op.options})
                for site in problem.cluster.sites(gang)
            )
        }
        self._site_memory = [self._room(site) for site in self._site_bits]
        self._simple = all(_is_simple(o) for op in problem.graph.operators for o in op.options)
        self.nodes: dict[int, Node] = {}
        self._add_nodes()
        self._leader: dict[str, str] = {}
        self._components: dict[str, Component] = {}
        self._lone: dict[int, Component] = {}
        self._add_components()
        self._travel: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of clusters."""
        return len(self.nodes)

    def clusters(self) -> list[list[str]]:
        """Return the members of every cluster of two or more, in running order."""
        nodes = [sorted(node.members) for node in self.nodes.values() if len(node.members) > 1]
        return [[self.names[i] for i in members] for members in nodes]

    def _add_nodes(self) -> None:
        graph = self.problem.graph
        place = {name: i for i, name in enumerate(self.names)}
        for i, name in enumerate(self.names):
            operator = graph.operator(name)
            options = operator.options
            sites = 0
            for placement in self.problem.placements(name):
                sites |= self._site_bits[placement.devices]
            held = max(option.workspace_bytes for option in options)
            held += sum(_size(v) for v in graph.outputs[name])
            held += sum(_size(v) for v in graph.inputs[name] if not v.persistent)
            work = min(float(o.gang * min(o.duration_ticks.values())) for o in options)
            gangs = frozenset(o.gang for o in options)
            batch = operator.micro_batch
            batches = frozenset() if batch is None else frozenset({batch})
            span, site = float(min(min(o.duration_ticks.values()) for o in options)), None
            if self.guide is not None:
                run = self.guide[name]
                start, stop = _times(run)
                span, site = float(stop - start), run.devices
            self.nodes[i] = Node(
                members=[i],
                mask=1 << i,
                above=0,
                below=0,
                work=work,
                span=span,
                before={},
                after={},
                sites=sites,
                gangs=gangs,
                held_bytes=held,
                group=operator.group,
                batches=batches,
                site=site,
                recomputable=operator.recomputable,
            )
        self._add_edges(place)
        for i in range(len(self.names)):
            for j in self.nodes[i].before:
                self.nodes[i].above |= self.nodes[j].above | 1 << j
        for i in reversed(range(len(self.names))):
            for j in self.nodes[i].after:
                self.nodes[i].below |= self.nodes[j].below | 1 << j

    def _add_edges(self, place: Mapping[str, int]) -> None:
        for value in self.problem.graph.values:
            if value.producer is not None:
                first = place[value.producer]
                for consumer in value.consumers:
                    self._edge(first, place[consumer]).add(value.name)
        latest: dict[str, int] = {}
        for i in self.nodes:
            for device in self.nodes[i].site or ():
                if device in latest:
                    self._edge(latest[device], i)
                latest[device] = i

    def _edge(self, first: int, last: int) -> set[str]:
        """Return the values between two operators; both ends share the set until one is merged."""
        values = self.nodes[first].after.setdefault(last, set())
        self.nodes[last].before[first] = values
        return values

    def _add_components(self) -> None:
        graph = self.problem.graph
        for i, name in enumerate(self.names):
            node, group = self.nodes[i], graph.operator(name).group
            if group is None:
                self._lone[i] = Component(node.work, 0, node.sites)
            elif group in self._components:
                self._components[group].work += node.work
                self._components[group].sites &= node.sites
            else:
                self._leader[group] = group
                self._components[group] = Component(node.work, 0, node.sites)
        place = {name: i for i, name in enumerate(self.names)}
        for value in graph.values:
            if value.producer is not None:
                first = place[value.producer]
                last = max((place[consumer] for consumer in value.consumers), default=first)
                last = len(self.names) if value.is_kept else last
                component = self._component(self.key(first))
                component.lives += ((first, last, _size(value)),)
            else:
                homes = {self.key(place[consumer]) for consumer in value.consumers}
                for home in homes:
                    self._component(home).persistent_bytes += _size(value)

    def key(self, node: int) -> str | int:
        """Return the component of a cluster: a leading group, or the cluster itself."""
        group = self.nodes[node].group
        return node if group is None else self._find(group)

    def _find(self, group: str) -> str:
        while self._leader[group] != group:
            self._leader[group] = self._leader[self._leader[group]]
            group = self._leader[group]
        return group

    def _component(self, key: str | int) -> Component:
        return self._lone[key] if isinstance(key, int) else self._components[key]

    def component(self, node: int) -> Component:
        """Return what colocation ties to the cluster's site."""
        return self._component(self.key(node))

    def convex(self, nodes: Iterable[int]) -> bool:
        """Return whether no path leaves the clusters and comes back: a merge then makes no cycle.

        A cycle of clusters after the merge would leave the merged cluster and return to it, so
        some cluster outside would lie after one of the clusters and before another.
        """
        mask = above = below = 0
        for node in nodes:
            mask |= self.nodes[node].mask
            above |= self.nodes[node].above
            below |= self.nodes[node].below
        return above & below & ~mask == 0

    def travel_ticks(self, values: Iterable[str]) -> float:
        """Return the transfer time of values on an average channel, one after the other."""
        return sum(self._value_ticks(name) for name in values)

    def _value_ticks(self, name: str) -> float:
        if name not in self._travel:
            channels = self.problem.cluster.channels
            value = self.problem.graph.value(name)
            payload = max(value.payload(layout) for layout in value.bytes)
            ticks = sum(c.transfer_ticks(payload, value.messages) for c in channels)
            self._travel[name] = ticks / len(channels) if channels else 0.0
        return self._travel[name]

    def order(self) -> list[int]:
        """Return the clusters in topological order."""
        missing = {i: len(node.before) for i, node in self.nodes.items()}
        heap = [i for i, count in missing.items() if count == 0]
        result: list[int] = []
        while heap:
            i = heappop(heap)
            result.append(i)
            for j in self.nodes[i].after:
                missing[j] -= 1
                if missing[j] == 0:
                    heappush(heap, j)
        return result

    def together(self, i: int, j: int) -> bool:
        """Return whether colocation puts two clusters on one site."""
        return self.key(i) == self.key(j)

    def way_ticks(self, i: int, j: int) -> float:
        """Return the time from one cluster to the next along an edge, with the first one's span."""
        node = self.nodes[i]
        if self.guide is None or node.site == self.nodes[j].site:
            return node.span
        return node.span + self.travel_ticks(node.after[j])

    def back_ticks(self, i: int, j: int) -> float:
        """Return the time from the end of one cluster to the end of the next along an edge."""
        return self.way_ticks(i, j) - self.nodes[i].span + self.nodes[j].span

    def paths(self) -> tuple[dict[int, float], dict[int, float]]:
        """Return the longest path before and after each cluster, without itself, in ticks."""
        order = self.order()
        heads: dict[int, float] = {}
        tails: dict[int, float] = {}
        for i in order:
            before = self.nodes[i].before
            heads[i] = max((heads[j] + self.way_ticks(j, i) for j in before), default=0.0)
        for i in reversed(order):
            after = self.nodes[i].after
            tails[i] = max((self.back_ticks(i, j) + tails[j] for j in after), default=0.0)
        return heads, tails

    def may_merge(self, nodes: list[int], caps: Caps) -> bool:
        """Return whether a merge keeps the graph acyclic, leaves a site, and respects the caps.

        The caps on work and path are for the caller, who may have reasons to exceed them.
        """
        if not self.convex(nodes) or len({self.nodes[i].recomputable for i in nodes}) > 1:
            return False
        if caps.strict and len({self.nodes[i].batches for i in nodes if self.nodes[i].batches}) > 1:
            return False
        keys = dict.fromkeys(map(self.key, nodes))
        sites, gangs = self._offer(nodes)
        if caps.strict and any(not self.nodes[i].gangs <= gangs for i in nodes):
            return False
        for key in keys:
            sites &= self._component(key).sites
        return bool(sites) and self._fits(nodes, keys, sites, caps.memory_bytes)

    def _offer(self, nodes: list[int]) -> tuple[int, frozenset[int]]:
        """Return the sites and gangs that the merged cluster would offer."""
        sites = -1
        for i in nodes:
            sites &= self.nodes[i].sites
        if self._simple:
            return sites, self.nodes[nodes[0]].gangs
        offered, gangs = 0, set()
        for choice, _ in usable(self.problem, self._members(nodes)):
            for site in self.problem.cluster.sites(choice.gang):
                classes = {self.problem.cluster.device(d).device_class for d in site}
                if classes <= set(choice.classes):
                    offered |= self._site_bits[site]
                    gangs.add(choice.gang)
        return offered, frozenset(gangs)

    def _members(self, nodes: Iterable[int]) -> list[str]:
        return [
            self.names[i] for i in sorted(m for node in nodes for m in self.nodes[node].members)
        ]

    def _room(self, site: tuple[str, ...]) -> int | None:
        limits = [self.problem.cluster.device(d).memory_bytes for d in site]
        return min((limit for limit in limits if limit is not None), default=None)

    def _fits(
        self, nodes: list[int], keys: Iterable[str | int], sites: int, cap: int | None
    ) -> bool:
        rooms = [room for i, room in enumerate(self._site_memory) if sites >> i & 1]
        known = [room for room in rooms if room is not None]
        limit = cap if len(known) < len(rooms) else min(cap or max(known), max(known))
        if limit is None:
            return True
        parts = [self._component(key) for key in keys]
        stored = sum(part.persistent_bytes for part in parts)
        held = sum(self.nodes[i].held_bytes for i in nodes)
        if stored + held > limit and stored + self._peak(self._members(nodes)) > limit:
            return False
        if len(parts) == 1 or not known or self.guide is not None:
            return True
        return stored + Component.joined(parts, sites).stash_bytes() <= max(known)

    def _peak(self, members: list[str]) -> int:
        """Return the least bytes a merged cluster holds at once, without persistent values."""
        graph, inside = self.problem.graph, set(members)
        made = {
            value.name
            for member in members
            for value in graph.outputs[member]
            if value.is_kept or any(consumer not in inside for consumer in value.consumers)
        }
        peaks = []
        for choice, border in usable(self.problem, members):
            read = [name for name in border.reads if not graph.value(name).persistent]
            peak = workspace_bytes(self.problem, members, choice, border, made)
            peak += sum(graph.value(name).bytes[border.writes[name]] for name in made)
            peak += sum(graph.value(name).bytes[border.reads[name]] for name in read)
            peaks.append(peak)
        return min(peaks)

    def merge(self, nodes: list[int]) -> int:
        """Merge clusters that :meth:`may_merge` allows; return the merged cluster."""
        keys = dict.fromkeys(map(self.key, nodes))
        sites, gangs = self._offer(nodes)
        kept, *gone = sorted(nodes)
        node = self.nodes[kept]
        for i in gone:
            other = self.nodes.pop(i)
            node.members += other.members
            node.mask |= other.mask
            node.above |= other.above
            node.below |= other.below
            node.work += other.work
            node.span += other.span
            node.held_bytes += other.held_bytes
            node.group = node.group or other.group
            node.batches |= other.batches
            self._rewire(kept, node, i, other)
        node.sites, node.gangs = sites, gangs
        node.above &= ~node.mask
        node.below &= ~node.mask
        self._spread(node)
        self._tie(kept, list(keys))
        return kept

    def _rewire(self, kept: int, node: Node, gone: int, other: Node) -> None:
        for mine, theirs, back in (
            (node.before, other.before, "after"),
            (node.after, other.after, "before"),
        ):
            for neighbour, values in theirs.items():
                if neighbour == kept:
                    continue
                joined = mine.get(neighbour, set()) | values
                table: dict[int, set[str]] = getattr(self.nodes[neighbour], back)
                table.pop(gone)
                mine[neighbour] = table[kept] = joined
        node.before.pop(gone, None)
        node.after.pop(gone, None)

    def _spread(self, node: Node) -> None:
        """Update the reachability of all clusters before and after a merged one."""
        above, below = node.above | node.mask, node.below | node.mask
        for other in self.nodes.values():
            if other is not node:
                if other.mask & node.above:
                    other.below |= below
                elif other.mask & node.below:
                    other.above |= above

    def _tie(self, kept: int, keys: list[str | int]) -> None:
        parts = [self._component(key) for key in keys]
        groups = [key for key in keys if isinstance(key, str)]
        for key in keys:
            if isinstance(key, int):
                del self._lone[key]
        sites = self.nodes[kept].sites
        for part in parts:
            sites &= part.sites
        joined = Component.joined(parts, sites)
        if not groups:
            self._lone[kept] = joined
            return
        for group in groups:
            self._leader[group] = groups[0]
        self._components[groups[0]] = joined


def _is_simple(option: Option) -> bool:
    """Return whether every site is one device and every layout is ``full``."""
    tables = (*option.reads.values(), *option.writes.values())
    return option.gang == 1 and all(layout == FULL for layout in tables)


def _times(run: OperatorRun) -> tuple[int, int]:
    assert run.start_ticks is not None
    assert run.stop_ticks is not None
    return run.start_ticks, run.stop_ticks


def _size(value: Value) -> int:
    return max(value.bytes.values())
