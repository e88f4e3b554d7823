"""The command ``milp-plan``, one module per group of subcommands."""
