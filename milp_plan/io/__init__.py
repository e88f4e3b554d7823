"""Readers and writers of instance and plan files."""

from milp_plan.kinds.pipeline.torch_schedule import (
    torch_actions,
    torch_remarks,
    torch_schedule_csv,
    write_torch_schedule,
)
from milp_plan.kinds.placement.dnn_partitioning import ACCELERATOR, CPU
from milp_plan.kinds.placement.dnn_split import read_split, split_text

from .cluster_file import cluster_of, read_cluster
from .files import Document, read_document, write_atomic, write_document
from .goal import Goal, pursue
from .perfetto import trace, trace_text
from .pipeline_file import PipelineFile, PipelinePiece, exact, read_pipeline_file
from .plan_file import plan_from_json, plan_to_json, read_plan, write_plan
from .recipe_file import Peer, Recipe, RecipeCase, read_recipe
from .registry import Format, formats, read, read_many, write
from .schemas import schemas, write_schemas

__all__ = [
    "ACCELERATOR",
    "CPU",
    "Document",
    "Format",
    "Goal",
    "Peer",
    "PipelineFile",
    "PipelinePiece",
    "Recipe",
    "RecipeCase",
    "cluster_of",
    "exact",
    "formats",
    "plan_from_json",
    "plan_to_json",
    "pursue",
    "read",
    "read_cluster",
    "read_document",
    "read_many",
    "read_pipeline_file",
    "read_plan",
    "read_recipe",
    "read_split",
    "schemas",
    "split_text",
    "torch_actions",
    "torch_remarks",
    "torch_schedule_csv",
    "trace",
    "trace_text",
    "write",
    "write_atomic",
    "write_document",
    "write_plan",
    "write_schemas",
    "write_torch_schedule",
]
