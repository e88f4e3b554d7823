"""Groups of an acyclic graph: never a circle, and no more caution than needed."""

import random

import networkx as nx

from milp_plan.capture.grouping import Groups


def closes_a_circle(edges, of, node, group) -> bool:
    """Whether the graph of groups has a circle once the node is in the group; by looking."""
    place = {**of, node: group}
    graph = nx.DiGraph()
    for reader, sources in edges.items():
        for source in sources:
            if reader in place and source in place and place[reader] != place[source]:
                graph.add_edge(place[source], place[reader])
    return not nx.is_directed_acyclic_graph(graph)


def test_a_node_may_join_exactly_where_no_circle_closes():
    answers = {True: 0, False: 0}
    for seed in range(60):
        rng = random.Random(seed)
        count = rng.randint(2, 14)
        edges = {
            node: tuple(source for source in range(node) if rng.random() < 0.3)
            for node in range(count)
        }
        groups, of = Groups(count), {}
        for node in range(count):
            allowed = []
            for group in range(len(groups.members)):
                may = groups.may_join(group, edges[node])
                answers[may] += 1
                assert may != closes_a_circle(edges, of, node, group)
                if may:
                    allowed.append(group)
            if allowed and rng.random() < 0.7:
                of[node] = rng.choice(allowed)
                groups.join(node, of[node], edges[node])
            else:
                of[node] = groups.open(node, edges[node])
        assert [groups.of[node] for node in range(count)] == [of[node] for node in range(count)]
    assert min(answers.values()) > 50
