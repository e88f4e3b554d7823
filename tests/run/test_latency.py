from milp_plan.check import verify
from milp_plan.formulation.planted_serial import planted_serial
from milp_plan.run import Settings, solve
from tests.support.serial_brute import brute_serial


def test_runs_prove_tiny_problems():
    proved = 0
    for seed in (0, 1, 3, 8):
        problem, _ = planted_serial(seed, calls=1 + seed % 2)
        best = brute_serial(problem)
        outcome = solve(problem, Settings(time_limit_s=20.0, threads=1 + seed % 2, gap=1e-6))
        assert best is not None
        assert outcome.value == best[0]
        assert outcome.bound is not None
        assert outcome.bound <= best[0]
        proved += outcome.proved
        assert not outcome.disputed
        assert outcome.plan is not None
        assert verify(problem, outcome.plan).ok
        assert "greedy topological fill" in outcome.baselines
        for value in outcome.baselines.values():
            assert value is None or value >= best[0]
    assert proved >= 3
