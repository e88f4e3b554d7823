"""Pipelines of unequal peers that fail: policies in an event simulation.

After SWARM parallelism (Ryabinin et al., arXiv 2301.11913): instead of pipelines that stay, every
micro-batch picks its next peer by interleaved weighted round robin (*wiring*), and from time to
time a peer moves from the least to the most loaded stage (*rebalancing*).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from random import Random

from milp_plan.core import ceil_div


class Policy(StrEnum):
    """Who works for whom."""

    STATIC = "static pipelines"
    WIRED = "stochastic wiring"
    BALANCED = "wiring and rebalancing"


@dataclass(frozen=True)
class Swarm:
    """Peers, stages, and what goes wrong.

    Parameters
    ----------
    speeds
        Units of work per tick of each peer.
    stages
        Peer p begins at stage p modulo this; in static pipelines p // stages is its pipeline.
    work
        Units of a micro-batch at each stage.
    horizon
        Ticks that are simulated.
    fail_every
        Mean ticks between failures of any peer; ``None`` for none.
    repair
        Ticks until a peer is back. What it was working on begins again elsewhere.
    balance_every
        Ticks between two moves of a peer.
    in_flight
        Micro-batches under way per peer.
    seed
        Of failures.
    """

    speeds: tuple[int, ...]
    stages: int
    work: int
    horizon: int
    fail_every: int | None = None
    repair: int = 0
    balance_every: int = 1
    in_flight: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Run:
    """What came of it.

    Parameters
    ----------
    finished
        Micro-batches through all stages.
    capacity
        Of each stage: units of work that its living peers could have done.
    moves, failures
        Peers that were moved, and that failed.
    """

    finished: int
    capacity: tuple[int, ...]
    moves: int
    failures: int

    def most(self, work: int) -> int:
        """Return what no policy can exceed with these peers at these stages.

        Proof: a finished micro-batch took ``work`` units at every stage, by peers that were alive
        and at that stage.
        """
        return min(self.capacity) // work


def simulate(swarm: Swarm, policy: Policy) -> Run:
    """Run a swarm under a policy; equal seeds fail at equal times."""
    return _Simulation(swarm, policy).run()


Event = tuple[int, int, str, int, int]
"""(time, number, what, peer, epoch of the peer)."""


@dataclass
class _Simulation:
    swarm: Swarm
    policy: Policy
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        peers = len(self.swarm.speeds)
        self.stage = [peer % self.swarm.stages for peer in range(peers)]
        self.pipeline = [peer // self.swarm.stages for peer in range(peers)]
        self.alive, self.epoch = [True] * peers, [0] * peers
        self.queue: list[list[tuple[int, int]]] = [[] for _ in range(peers)]  # (stage, pipeline)
        self.parked: list[list[tuple[int, int]]] = [[] for _ in range(self.swarm.stages)]
        self.spent = [0] * peers  # expected ticks given to a peer since it came
        self.capacity = [0] * self.swarm.stages
        self.served = [0] * self.swarm.stages
        self.number, self.now = count(), 0
        self.finished = self.moves = self.failures = 0

    def run(self) -> Run:
        swarm, rng = self.swarm, Random(self.swarm.seed)
        for batch in range(swarm.in_flight * len(swarm.speeds)):
            self.send(0, batch % max(1, len(swarm.speeds) // swarm.stages))
        time = 0
        while swarm.fail_every is not None and time < swarm.horizon:
            time += ceil_div(round(rng.expovariate(1.0) * 10**6) * swarm.fail_every, 10**6)
            self.push(time, "fail", rng.randrange(len(swarm.speeds)))
        for at in range(swarm.balance_every, swarm.horizon, swarm.balance_every):
            self.push(at, "balance", 0)
        while self.events and self.events[0][0] <= swarm.horizon:
            time, _, what, peer, epoch = heapq.heappop(self.events)
            self.pass_time(time)
            if what == "done" and epoch == self.epoch[peer]:
                self.done(peer)
            elif what == "fail" and self.alive[peer]:
                self.fail(peer)
            elif what == "back":
                self.alive[peer] = True
                self.settle(peer)
            elif what == "balance" and self.policy is Policy.BALANCED:
                self.balance()
        self.pass_time(swarm.horizon)
        return Run(self.finished, tuple(self.capacity), self.moves, self.failures)

    def push(self, time: int, what: str, peer: int) -> None:
        heapq.heappush(self.events, (time, next(self.number), what, peer, self.epoch[peer]))

    def pass_time(self, time: int) -> None:
        """Count what living peers can do until then."""
        for peer, speed in enumerate(self.swarm.speeds):
            if self.alive[peer]:
                self.capacity[self.stage[peer]] += speed * (time - self.now)
        self.now = time

    def ticks(self, peer: int) -> int:
        return ceil_div(self.swarm.work, self.swarm.speeds[peer])

    def candidates(self, stage: int, pipeline: int) -> Sequence[int]:
        """Living peers that may take a micro-batch."""
        static = self.policy is Policy.STATIC
        return [
            peer
            for peer in range(len(self.swarm.speeds))
            if self.alive[peer]
            and self.stage[peer] == stage
            and not (static and self.pipeline[peer] != pipeline)
        ]

    def send(self, stage: int, pipeline: int) -> None:
        """Give a micro-batch to the peer with least expected time; park it where there is none."""
        free = self.candidates(stage, pipeline)
        if not free:
            self.parked[stage].append((stage, pipeline))
            return
        peer = min(free, key=lambda peer: (self.spent[peer] + self.ticks(peer), peer))
        self.spent[peer] += self.ticks(peer)
        self.queue[peer].append((stage, pipeline))
        if len(self.queue[peer]) == 1:
            self.push(self.now + self.ticks(peer), "done", peer)

    def done(self, peer: int) -> None:
        stage, pipeline = self.queue[peer].pop(0)
        self.served[stage] += 1
        if self.queue[peer]:
            self.push(self.now + self.ticks(peer), "done", peer)
        if stage + 1 < self.swarm.stages:
            self.send(stage + 1, pipeline)
        else:
            self.finished += 1
            self.send(0, pipeline)

    def fail(self, peer: int) -> None:
        """Everything a peer had begins again elsewhere."""
        self.failures += 1
        self.alive[peer] = False
        self.push(self.now + self.swarm.repair, "back", peer)
        self.leave(peer)

    def leave(self, peer: int) -> None:
        self.epoch[peer] += 1
        left, self.queue[peer] = self.queue[peer], []
        for stage, pipeline in left:
            self.send(stage, pipeline)

    def settle(self, peer: int) -> None:
        """A peer comes to a stage: it counts as busy as the others, and takes what is parked."""
        stage = self.stage[peer]
        others = [self.spent[p] for p in self.candidates(stage, self.pipeline[peer]) if p != peer]
        self.spent[peer] = max(self.spent[peer], min(others, default=0))
        waiting, self.parked[stage] = self.parked[stage], []
        for entry in waiting:
            self.send(*entry)

    def balance(self) -> None:
        """Move the peer whose going evens out stages most, from the strongest to the weakest."""
        speed = [0] * self.swarm.stages
        for peer, rate in enumerate(self.swarm.speeds):
            speed[self.stage[peer]] += rate if self.alive[peer] else 0
        rich = max(range(len(speed)), key=speed.__getitem__)
        poor = min(range(len(speed)), key=speed.__getitem__)
        movable = [
            peer
            for peer, rate in enumerate(self.swarm.speeds)
            if self.alive[peer] and self.stage[peer] == rich and speed[poor] + rate < speed[rich]
        ]
        if not movable or len(self.candidates(rich, 0)) < 2:
            return
        even = (speed[rich] - speed[poor]) / 2
        peer = min(movable, key=lambda peer: (abs(self.swarm.speeds[peer] - even), peer))
        self.stage[peer] = poor
        self.moves += 1
        self.leave(peer)
        self.settle(peer)
