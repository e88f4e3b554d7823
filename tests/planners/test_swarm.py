"""Peers that fail: policies against each other, and against what no policy can exceed."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from statistics import median

import pytest
from swarm_simulation import Policy, Run, Swarm, simulate

from tests.support.seeds import few

SECOND = 1_000


def swarm(seed):
    """Sixteen peers of speeds one to four, four stages, a failure every hundred seconds."""
    rng = random.Random(seed)
    speeds = tuple(rng.randint(10, 40) for _ in range(16))
    return Swarm(
        speeds, 4, 10 * SECOND, 1_000 * SECOND, 100 * SECOND, 60 * SECOND, 10 * SECOND, 4, seed
    )


@cache
def runs(seed):
    return {policy: simulate(swarm(seed), policy) for policy in Policy}


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_wiring_and_rebalancing(seed):
    """W1: at least 1.2 of static pipelines; never above the weakest stage's peers."""
    found = runs(seed)
    for policy, run in found.items():
        assert 0 < run.finished <= run.most(10 * SECOND), policy
        assert run.failures > 0
    assert found[Policy.BALANCED].moves > 0
    assert found[Policy.BALANCED].finished >= 1.2 * found[Policy.STATIC].finished
    assert found[Policy.WIRED].finished >= found[Policy.STATIC].finished


def test_rebalancing_pays():
    pairs = [(runs(seed)[Policy.BALANCED], runs(seed)[Policy.WIRED]) for seed in range(2)]
    assert median(one.finished / other.finished for one, other in pairs) > 1.0


def test_equal_peers_without_failures_are_all_the_same():
    """Four pipelines of equal peers: as many micro-batches as they can do."""
    calm = Swarm((10,) * 16, 4, 100, 10_000, None, 0, 1_000, 2)
    for policy in Policy:
        run = simulate(calm, policy)
        assert run.capacity == (400_000,) * 4
        assert run.most(100) - 16 * 4 <= run.finished <= run.most(100)
        assert (run.failures, run.moves) == (0, 0)


def test_one_peer_per_stage():
    """A line of speeds 1, 2 and 4: the slowest decides, and a failure stops it for the repair."""
    line = Swarm((1, 2, 4), 3, 4, 400, None, 0, 1_000, 2)
    assert simulate(line, Policy.WIRED).finished == (400 - 4 - 2 - 1) // 4 + 1
    broken = replace(line, fail_every=100, repair=50, seed=1)
    run = simulate(broken, Policy.WIRED)
    assert run.failures
    assert run.finished < simulate(line, Policy.WIRED).finished


def test_equal_seeds_repeat():
    assert simulate(swarm(3), Policy.BALANCED) == simulate(swarm(3), Policy.BALANCED)
    assert Run(3, (40, 30), 0, 0).most(10) == 3
