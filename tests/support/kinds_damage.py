"""Ways to damage valid plans of jobs, resharding, local updates, training and serving.

As in :mod:`tests.support.damage`: each says which rule has to catch it, returns a problem and a
plan, or ``None`` where the plan offers nothing to damage so, and is sure to break its rule.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations

from milp_plan.kinds.jobs.bounds import jobs_obstacle
from milp_plan.kinds.jobs.check import read_runs, verify_jobs
from milp_plan.kinds.jobs.planners import in_turn
from milp_plan.kinds.local_updates.check import verify_local_updates
from milp_plan.kinds.resharding.check import ports, verify_resharding
from milp_plan.kinds.serving.api import check as check_serving
from milp_plan.kinds.serving.problem import Phase
from milp_plan.kinds.training.api import check
from milp_plan.kinds.training.configuration import Offload, Schedule
from milp_plan.kinds.training.exports import refusals
from milp_plan.kinds.training.exports.formats import FORMATS
from tests.support.planted_local_updates import planted_local_updates
from tests.support.planted_resharding import planted_resharding

from .jobs import chains, plain
from .serving import planned as served
from .training import planned


def _jobs(seed):
    problem = (plain if seed % 2 else chains)(seed // 2)
    return None if jobs_obstacle(problem) else (problem, in_turn(problem))


KINDS = {
    "jobs": (_jobs, verify_jobs),
    "resharding": (planted_resharding, verify_resharding),
    "local_updates": (planted_local_updates, verify_local_updates),
    "training": (planned, check),
    "serving": (served, check_serving),
}
"""Name of the kind -> what draws a problem and a plan, and the checker."""

KINDS_DAMAGES = {}
"""Name -> (kind, rule that has to catch it, how to do it)."""


def _damage(kind, rule):
    def register(function):
        KINDS_DAMAGES[function.__name__] = (kind, rule, function)
        return function

    return register


@cache
def drawn(kind, seed):
    """A problem, a plan without claims, and its verdict; ``None`` where there is no plan."""
    draw, verify = KINDS[kind]
    found = draw(seed)
    if found is None:
        return None
    problem, plan = found
    plan = replace(plan, fingerprint=None, value=None)
    verdict = verify(problem, plan)
    assert verdict.ok
    return problem, plan, verdict


# -- every kind ------------------------------------------------------------------------------------


def _of_another(problem, plan, verdict, rng):
    return problem, replace(plan, problem=f"{problem.name} of another")


def _told_less(problem, plan, verdict, rng):
    return problem, replace(plan, value=verdict.value - rng.choice([1, verdict.value]))


def _of_other_contents(problem, plan, verdict, rng):
    return problem, replace(plan, fingerprint=f"{rng.getrandbits(256):064x}")


for _kind in KINDS:
    KINDS_DAMAGES[f"{_kind} of other contents"] = (_kind, "identity", _of_other_contents)
    KINDS_DAMAGES[f"{_kind} of another problem"] = (_kind, "identity", _of_another)
    KINDS_DAMAGES[f"{_kind} with another value"] = (_kind, "claim", _told_less)


# -- jobs ------------------------------------------------------------------------------------------


def _unlimited(problem):
    """The same without limits of memory: what moves breaks none of them."""
    pools = tuple(replace(pool, memory=None) for pool in problem.pools)
    return replace(problem, pools=pools, host=None)


def _with_run(problem, plan, old, **changes):
    runs = tuple(replace(run, **changes) if run is old else run for run in plan.runs)
    return problem, replace(plan, runs=runs)


def _shifted(run, by):
    """A run at another time, with its load and its store."""
    times = {name: getattr(run, name) for name in ("start", "load", "store")}
    return {name: time + by for name, time in times.items() if time is not None}


@_damage("jobs", "assignment")
def missing_run(problem, plan, verdict, rng):
    gone = rng.choice(plan.runs)
    return problem, replace(plan, runs=tuple(run for run in plan.runs if run is not gone))


@_damage("jobs", "assignment")
def repeated_run(problem, plan, verdict, rng):
    return problem, replace(plan, runs=(*plan.runs, rng.choice(plan.runs)))


@_damage("jobs", "assignment")
def unknown_option(problem, plan, verdict, rng):
    return _with_run(problem, plan, rng.choice(plan.runs), option=rng.choice([-1, 9]))


@_damage("jobs", "assignment")
def device_beyond_the_pool(problem, plan, verdict, rng):
    run = rng.choice(plan.runs)
    return _with_run(problem, plan, run, devices=(*run.devices[1:], rng.choice([-1, 7])))


@_damage("jobs", "assignment")
def device_twice(problem, plan, verdict, rng):
    wide = [run for run in plan.runs if len(run.devices) > 1]
    if not wide:
        return None
    run = rng.choice(wide)
    return _with_run(problem, plan, run, devices=(run.devices[0],) * len(run.devices))


@_damage("jobs", "release")
def released_late(problem, plan, verdict, rng):
    run = rng.choice([run for run in plan.runs if run.unit == 0])
    late = (run.start if run.load is None else run.load) + rng.choice([1, 7])
    jobs = [replace(job, release=late) if job.name == run.job else job for job in problem.jobs]
    return replace(problem, jobs=tuple(jobs)), plan


@_damage("jobs", "order")
def unit_beside_the_one_before(problem, plan, verdict, rng):
    """On another device of the pool, which idles: all runs hold the first ones."""
    readings = read_runs(problem, plan)
    pairs = [
        (before, after)
        for before, after in permutations(readings, 2)
        if (before.job, before.run.unit + 1) == (after.job, after.run.unit)
        and problem.pool[after.option.pool].devices > len(after.run.devices) == 1
        and before.weights != after.weights
        and after.first - (after.run.start - before.run.start) >= before.job.release
    ]
    if not pairs:
        return None
    before, after = rng.choice(pairs)
    moved = _shifted(after.run, before.run.start - after.run.start)
    last = problem.pool[after.option.pool].devices - 1
    return _with_run(_unlimited(problem), plan, after.run, devices=(last,), **moved)


@_damage("jobs", "exclusion")
def runs_that_meet(problem, plan, verdict, rng):
    readings = [reading for reading in read_runs(problem, plan) if reading.weights is None]
    pairs = [
        (one, other)
        for one, other in permutations(readings, 2)
        if one.option.pool == other.option.pool and other.run.start >= one.job.release
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return _with_run(problem, plan, one.run, start=other.run.start)


def _moving(problem, plan):
    """Runs whose weights take time to load and to store."""
    readings = read_runs(problem, plan)
    return [r for r in readings if r.weights is not None and r.weights.load and r.weights.store]


@_damage("jobs", "weights")
def never_loaded(problem, plan, verdict, rng):
    moving = _moving(problem, plan)
    return _with_run(problem, plan, rng.choice(moving).run, load=None) if moving else None


@_damage("jobs", "weights")
def never_stored(problem, plan, verdict, rng):
    moving = _moving(problem, plan)
    return _with_run(problem, plan, rng.choice(moving).run, store=None) if moving else None


@_damage("jobs", "weights")
def stored_while_used(problem, plan, verdict, rng):
    moving = _moving(problem, plan)
    if not moving:
        return None
    run = rng.choice(moving).run
    return _with_run(problem, plan, run, store=run.store - 1)


@_damage("jobs", "weights")
def loads_of_none(problem, plan, verdict, rng):
    free = [reading.run for reading in read_runs(problem, plan) if reading.weights is None]
    if not free:
        return None
    run = rng.choice(free)
    return _with_run(problem, plan, run, load=run.start)


@_damage("jobs", "lane")
def loads_that_meet(problem, plan, verdict, rng):
    """The load of a job's first unit begins with that of an earlier run of another job."""
    moving = _moving(problem, plan)
    pairs = [
        (one, other)
        for one, other in permutations(moving, 2)
        if one.job != other.job
        and one.run.unit == 0
        and one.option.pool == other.option.pool
        and one.job.release <= other.run.load < one.run.load
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return _with_run(_unlimited(problem), plan, one.run, load=other.run.load)


@_damage("jobs", "memory")
def less_memory(problem, plan, verdict, rng):
    peak = verdict.components["peak_memory"]
    pools = tuple(replace(pool, memory=peak - 1) for pool in problem.pools)
    return (replace(problem, pools=pools), plan) if peak else None


@_damage("jobs", "host")
def less_host(problem, plan, verdict, rng):
    peak = verdict.components["peak_host"]
    return (replace(problem, host=peak - 1), plan) if peak else None


# -- resharding ------------------------------------------------------------------------------------


def _with_delivery(problem, plan, old, **changes):
    rows = tuple(replace(entry, **changes) if entry is old else entry for entry in plan.deliveries)
    return problem, replace(plan, deliveries=rows)


def _last(plan):
    """The delivery behind which nothing is: another length or time of it meets no other one."""
    return max(plan.deliveries, key=lambda entry: entry.stop)


@_damage("resharding", "assignment")
def missing_delivery(problem, plan, verdict, rng):
    gone = rng.choice(plan.deliveries)
    rows = tuple(entry for entry in plan.deliveries if entry is not gone)
    return problem, replace(plan, deliveries=rows)


@_damage("resharding", "assignment")
def repeated_delivery(problem, plan, verdict, rng):
    again, last = rng.choice(plan.deliveries), _last(plan)
    later = replace(again, start=last.stop, stop=last.stop + again.stop - again.start)
    return problem, replace(plan, deliveries=(*plan.deliveries, later))


@_damage("resharding", "assignment")
def delivery_of_nothing_known(problem, plan, verdict, rng):
    return _with_delivery(problem, plan, rng.choice(plan.deliveries), slice="unknown")


@_damage("resharding", "sender")
def sender_without_the_slice(problem, plan, verdict, rng):
    entry = rng.choice(plan.deliveries)
    known = problem.by_name[entry.slice]
    others = [card.name for card in problem.cards if card.name not in known.senders]
    return _with_delivery(problem, plan, entry, sender=rng.choice([*others, "nobody"]))


@_damage("resharding", "start")
def delivery_before_the_begin(problem, plan, verdict, rng):
    entry = min(plan.deliveries, key=lambda entry: entry.start)
    back = entry.start + rng.choice([1, 7])
    return _with_delivery(problem, plan, entry, start=entry.start - back, stop=entry.stop - back)


@_damage("resharding", "length")
def longer_delivery(problem, plan, verdict, rng):
    entry = _last(plan)
    return _with_delivery(problem, plan, entry, stop=entry.stop + rng.choice([1, 7]))


@_damage("resharding", "length")
def shorter_delivery(problem, plan, verdict, rng):
    entry = rng.choice(plan.deliveries)
    return _with_delivery(problem, plan, entry, stop=entry.stop - 1)


@_damage("resharding", "exclusion")
def deliveries_that_meet(problem, plan, verdict, rng):
    """Two that share a card, one moved onto the other."""
    pairs = [
        (one, other)
        for one, other in permutations(plan.deliveries, 2)
        if set(ports(problem, one)) & set(ports(problem, other))
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    stop = other.start + one.stop - one.start
    return _with_delivery(problem, plan, one, start=other.start, stop=stop)


# -- local updates ---------------------------------------------------------------------------------


def _free(problem):
    """The same where nobody pays: another cut breaks no budget."""
    return replace(problem, budget=None)


@_damage("local_updates", "boundary")
def cut_behind_no_stage(problem, plan, verdict, rng):
    return _free(problem), replace(plan, cuts=(*plan.cuts, "nowhere"))


@_damage("local_updates", "boundary")
def cut_behind_the_last_stage(problem, plan, verdict, rng):
    return _free(problem), replace(plan, cuts=(*plan.cuts, problem.stages[-1].name))


@_damage("local_updates", "boundary")
def cut_twice(problem, plan, verdict, rng):
    if not plan.cuts:
        return None
    return _free(problem), replace(plan, cuts=(*plan.cuts, rng.choice(plan.cuts)))


@_damage("local_updates", "budget")
def less_budget(problem, plan, verdict, rng):
    spent = problem.price(plan.cuts)
    return (replace(problem, budget=rng.randrange(spent)), plan) if spent else None


@_damage("local_updates", "memory")
def stage_that_holds_less(problem, plan, verdict, rng):
    ends = [*(problem.by_name[name] for name in plan.cuts), len(problem.stages) - 1]
    held = {
        place: problem.ahead(place, min(end for end in ends if end >= place))
        for place in range(len(problem.stages))
    }
    places = [place for place, count in held.items() if count > 1]
    if not places:
        return None
    place, stages = rng.choice(places), list(problem.stages)
    stages[place] = replace(stages[place], most=held[place] - 1)
    return replace(problem, stages=tuple(stages)), plan


# -- training --------------------------------------------------------------------------------------


def _configured(problem, plan, **changes):
    return problem, replace(plan, configuration=replace(plan.configuration, **changes))


@_damage("training", "degrees")
def more_ranks(problem, plan, verdict, rng):
    return _configured(problem, plan, data=plan.configuration.data + rng.randint(1, 9))


@_damage("training", "degrees")
def another_number_of_micro_batches(problem, plan, verdict, rng):
    return _configured(problem, plan, micro_batches=plan.configuration.micro_batches + 1)


@_damage("training", "fixed")
def another_value_is_fixed(problem, plan, verdict, rng):
    value = plan.configuration.micro_batch + rng.randint(1, 3)
    return replace(problem, fixed={**problem.fixed, "micro_batch": value}), plan


@_damage("training", "framework")
def framework_that_does_not_run_it(problem, plan, verdict, rng):
    for name in rng.sample(sorted(FORMATS), len(FORMATS)):
        other = replace(problem, framework=name)
        if any(refusals(other)(plan.configuration)):
            return other, plan
    return None


@_damage("training", "schedule")
def schedule_without_replay(problem, plan, verdict, rng):
    c, blocks = plan.configuration, len(problem.architecture.blocks)
    if c.pipeline == 1 or c.recomputed or c.recomputed_by_chunk or 2 * c.pipeline > blocks:
        return None
    return _configured(problem, plan, schedule=Schedule.DUALPIPE_V, virtual=2, layers=())


@_damage("training", "memory")
def devices_with_less_memory(problem, plan, verdict, rng):
    peak = max(n for name, n in verdict.components.items() if name.startswith("peak_memory"))
    cluster = problem.cluster.with_memory(rng.randrange(1, peak))
    return replace(problem, cluster=cluster), plan


@_damage("training", "host memory")
def optimizer_on_hosts_with_less_memory(problem, plan, verdict, rng):
    problem, plan = _configured(problem, plan, offload=Offload.OPTIMIZER)
    (group,) = problem.cluster.groups
    host = replace(group.device.host, memory_bytes=rng.randrange(1000))
    group = replace(group, device=replace(group.device, host=host))
    return replace(problem, cluster=replace(problem.cluster, groups=(group,))), plan


# -- serving ---------------------------------------------------------------------------------------


def _deployed(problem, plan, **changes):
    return problem, replace(plan, deployment=replace(plan.deployment, **changes))


@_damage("serving", "degrees")
def more_replicas(problem, plan, verdict, rng):
    return _deployed(problem, plan, data=plan.deployment.data + rng.randint(1, 9))


@_damage("serving", "degrees")
def tensor_that_divides_no_heads(problem, plan, verdict, rng):
    tensor = 3 * plan.deployment.tensor
    cluster = replace(problem.cluster, groups=problem.cluster.groups * 3)
    other = replace(problem, cluster=cluster, fixed={}, requests=None)
    return other, replace(_deployed(problem, plan, tensor=tensor)[1], problem=other.name)


@_damage("serving", "requests")
def more_prompts_than_requests(problem, plan, verdict, rng):
    if "prompts" in problem.fixed:
        return None
    return _deployed(problem, plan, prompts=plan.deployment.requests + rng.randint(1, 9))


@_damage("serving", "requests")
def fewer_requests_than_asked(problem, plan, verdict, rng):
    d = plan.deployment
    return replace(problem, requests=d.requests * d.data + rng.randint(1, 9)), plan


@_damage("serving", "fixed")
def another_tensor_degree_is_fixed(problem, plan, verdict, rng):
    value = plan.deployment.tensor + rng.randint(1, 3)
    return replace(problem, fixed={**problem.fixed, "tensor": value}), plan


@_damage("serving", "memory")
def servers_with_less_memory(problem, plan, verdict, rng):
    peak = max(n for name, n in verdict.components.items() if name.startswith("peak_memory"))
    cluster = problem.cluster.with_memory(rng.randrange(1, peak))
    return replace(problem, cluster=cluster), plan


@_damage("serving", "time")
def first_token_sooner(problem, plan, verdict, rng):
    if problem.phase is Phase.DECODE:
        return None
    return replace(
        problem, first_token_ns=rng.randint(1, verdict.components["first_token"] - 1)
    ), plan


@_damage("serving", "time")
def tokens_faster(problem, plan, verdict, rng):
    if problem.phase is Phase.PREFILL:
        return None
    return replace(problem, token_ns=rng.randint(1, verdict.components["token"] - 1)), plan
