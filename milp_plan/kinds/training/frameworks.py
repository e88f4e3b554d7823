"""Names of the frameworks that plans are exported for."""

FRAMEWORKS = ("megatron", "torchtitan", "nanotron", "deepspeed", "fsdp2")
"""In the order of :data:`milp_plan.kinds.training.exports.FORMATS`."""
