"""Kinds of problems, a folder each: everything that only one kind needs.

:mod:`milp_plan.run.kinds` finds them: a folder with a module ``kind`` that defines ``KIND``.
"""
