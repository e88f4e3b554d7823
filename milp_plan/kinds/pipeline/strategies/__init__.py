"""Ways of pipelines."""
