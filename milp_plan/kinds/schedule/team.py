"""A search on a Dask cluster, in rounds: each worker searches from the best known plan.

A round is the search of one machine for some seconds: constructions the first time, annealing,
windows near the plan. Returned plans are checked like every plan. If a worker is lost, only its
round is lost; without workers, or without a scheduler, this machine continues the search.
"""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from typing import Any

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import now
from milp_plan.run.background import BackgroundThread
from milp_plan.run.dask import CONNECT_S, workers_of
from milp_plan.run.identity import sources
from milp_plan.run.ledger import Ledger

from .round import RoundAnswer, RoundRequest, work

ROUND_SHARE, SHORTEST_S, LONGEST_S = 0.25, 5.0, 30.0
"""Part of the time limit that a round takes, and its least and most seconds."""

REPLY_S = 1.0
"""Seconds reserved for the answers of the last round."""

LOOK_S, WORKERS_S = 0.1, 1.0
"""Seconds between two checks for answers, and for workers."""

PATIENCE_S = 15.0
"""Seconds without any worker after which this machine continues the search."""

MOST_FAILURES = 3
"""Consecutive failed rounds after which a worker gets no more."""


class Team:
    """The workers of a cluster that search for one run.

    Parameters
    ----------
    ledger
        The run's ledger, to which plans are offered.
    client
        Client of the scheduler; see :func:`client_at`.

    Attributes
    ----------
    deserted
        Why the cluster no longer searches; empty while it does.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan], client: Any) -> None:
        self.ledger, self.deserted = ledger, ""
        self._client = client
        self._data = pickle.dumps(ledger.problem)
        self._sources = sources()
        self._running: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._asked_s, self._seen_s = 0.0, now()
        self._stopped = False
        self._members: dict[str, dict[str, Any]] = {}
        self._counts = {"begun": 0, "lost": 0}
        ledger.details["cluster"] = {"rounds": self._counts, "workers": self._members}
        self._update_workers()
        self._thread = BackgroundThread(self._search)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the search is over or no worker is left."""
        while self._thread.is_alive():
            self._thread.join(LOOK_S)
        self._thread.check()

    def close(self) -> None:
        """Start no more rounds and cancel those that run."""
        self._stopped = True
        self._thread.join(REPLY_S)
        for future in self._running.values():
            future.cancel()

    # -- rounds ------------------------------------------------------------------------------------

    def _search(self) -> None:
        """Give every idle worker a round until the run is done; runs in a background thread."""
        while not (self._stopped or self.ledger.done or self.deserted):
            self._update_workers()
            for address in list(self._running):
                self._check_answer(address)
            for address in self._names:
                if address not in self._running:
                    self._submit(address)
            if not self._running and self._seconds <= 0:
                return
            time.sleep(LOOK_S)

    @property
    def _seconds(self) -> float:
        """Seconds of a round that begins now; 0 if it would be too short."""
        limit, left = self.ledger.budget.limit_s, self.ledger.budget.left_s - REPLY_S
        usual = min(LONGEST_S, max(SHORTEST_S, ROUND_SHARE * limit))
        seconds = left if left < usual + SHORTEST_S else usual
        return seconds if seconds >= min(SHORTEST_S, ROUND_SHARE * limit) else 0.0

    def _submit(self, address: str) -> None:
        seconds = self._seconds
        if self.ledger.done or seconds <= 0 or self._failures.get(address, 0) >= MOST_FAILURES:
            return
        settings = self.ledger.settings
        self._counts["begun"] += 1
        request = RoundRequest(
            start=self.ledger.plan,
            seed=settings.seed * 10_007 + self._counts["begun"],
            seconds=seconds,
            threads=settings.threads,
            construct=address not in self._members,
            sources=self._sources,
        )
        self._member(address)
        self._running[address] = self._client.submit(
            work, self._data, request, workers=[address], pure=False
        )

    def _member(self, address: str) -> dict[str, Any]:
        """Return the row of a worker in the record."""
        blank = {"name": self._names.get(address, ""), "host": "", "rounds": 0}
        blank |= {"schedules": 0, "models": 0, "improvements": 0, "best": None}
        return self._members.setdefault(address, blank)

    def _check_answer(self, address: str) -> None:
        """Offer the answer of a worker if it is ready; drop the round of a lost worker."""
        future = self._running[address]
        if address not in self._names:
            future.cancel()
        elif not future.done():
            return
        del self._running[address]
        if future.status == "finished":
            self._offer_answer(address, future)
        elif future.status == "error":
            self._failed(address, str(future.exception()))

    def _offer_answer(self, address: str, future: Any) -> None:
        try:
            answer: RoundAnswer = future.result(timeout=CONNECT_S)
        except Exception as error:  # the worker was lost with the answer
            self._failed(address, str(error))
            return
        self._failures[address] = 0
        member = self._member(address)
        member["host"] = answer.host
        member["rounds"] += 1
        member["schedules"] += answer.schedules
        member["models"] += answer.models
        if self.ledger.offer(answer.plan, f"{answer.by} on {member['name']}", "cluster"):
            member["improvements"] += 1
            member["best"] = self.ledger.value

    def _failed(self, address: str, why: str) -> None:
        self._failures[address] = self._failures.get(address, 0) + 1
        self.ledger.say("cluster", f"{self._member(address)['name']}: {why}")
        if self._failures[address] >= MOST_FAILURES:
            self.ledger.fail(f"worker {address} gets no more rounds: {why}")
            if all(self._failures.get(other, 0) >= MOST_FAILURES for other in self._names):
                self.deserted = "every worker fails"

    def _update_workers(self) -> None:
        """Update the list of workers; if the scheduler is busy, do so later."""
        if self._client.status not in ("running", "newly-created"):
            self.deserted = "the scheduler is lost"
            return
        if self._names and now() - self._asked_s < WORKERS_S:
            return
        with suppress(OSError):
            self._record_workers(workers_of(self._client))
        self._asked_s = now()

    def _record_workers(self, workers: dict[str, Any]) -> None:
        """Record new and lost workers."""
        lost = [address for address in self._names if address not in workers]
        self._counts["lost"] += len(lost)
        for address in lost:
            self.ledger.say("cluster", f"{self._names[address]} is lost")
        self._names = {a: f"worker {entry['name']}" for a, entry in workers.items()}
        if workers:
            self._seen_s = now()
        elif now() - self._seen_s > PATIENCE_S:
            self.deserted = "no worker is there"
