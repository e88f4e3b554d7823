"""``python -m milp_plan`` is ``milp-plan``."""

from milp_plan.cli.program import run

if __name__ == "__main__":
    run()
