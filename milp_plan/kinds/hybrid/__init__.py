"""Hybrid parallelism: stages of a pipeline with data, tensor degree and recomputation each."""
