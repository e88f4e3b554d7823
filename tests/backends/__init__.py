"""Tests find Pyomo loaded as the program loads it: without what no model uses."""

from milp_plan.lp.loading import load_pyomo

load_pyomo()
