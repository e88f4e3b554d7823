"""Helpers shared by tests: problems, brute force, plan builders."""
