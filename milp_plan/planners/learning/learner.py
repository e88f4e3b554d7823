"""The shortest plan by a search that learns: placements and orders are decided, transfers added."""
from __future__ import annotations

from collections.abc import Iterator
import numpy as np

from milp_plan.core import Placement, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from ..enumeration.tasks import Tasks, all_tasks
from .reading import Reading, unsuited
from .search import DONE, LEAF, STOPPED, search
from .state import AIM, put, undo

CONFLICTS = 500

class Learner:
    def __init__(self, problem, cutoff=None):
        self.problem = problem
        self.reading = Reading(problem, None if cutoff is None else cutoff - 1)
        self.net = self.reading.net
        self.state = self.net.state
        self.best = cutoff
        self.steps = np.array([CONFLICTS, 0, 64, 4000], dtype=np.int64)
        self.weights = np.array([1.0])
        self.state.n[AIM] = 8
        self.leaves = 0
        self.done = False

    @property
    def least(self):
        if self.done: return self.best
        return self.net.least(self.reading.goal) if self.state.n[2]==0 else None

    def plans(self, budget):
        while not budget.over:
            end = search(self.state, self.steps, self.weights)
            if end == DONE:
                self.done = True
                return
            if end == LEAF:
                self.leaves += 1
                plan = self._leaf()
                if plan is not None:
                    yield plan

    def _leaf(self):
        r = self.reading
        places = r.places()
        option = [o.options[0].name for o in r.graph.operators]
        placement = {n: Placement(option[i], (r.devices[places[r.unit[i]]],)) for i, n in enumerate(r.names)}
        starts = [self.net.least(v) for v, _ in r.start]
        tasks = next(all_tasks(self.problem, placement))
        # transfers by earliest deadline
        st = list(starts)
        free = {}
        n = tasks.operators
        rows = []
        for j,(route, served) in enumerate(tasks.sent):
            prod = r.index[r.graph.value(route.value).producer]
            rows.append((starts[prod]+tasks.ticks[prod], min(starts[r.index[c]] for c in served)-route.duration_ns, j, route))
        tstart = [0]*len(rows)
        ok = True
        for rel, dl, j, route in sorted(rows, key=lambda x: x[:3]):
            s = max([rel]+[free.get(q,0) for q in route.resources])
            if s > dl: ok = False
            tstart[j]=s
            for q in route.resources: free[q]=s+route.duration_ns
        value = max(s+t for s,t in zip(starts, tasks.ticks))
        plan = tasks.plan(starts+tstart, "learning") if ok else None
        if not ok: print("transfer conflict")
        undo(self.state, 0)
        if plan:
            self.best = value
            put(self.state, 2*r.goal, value-1, 5, 0)
        return plan
