"""Jobs: training jobs on a cluster over days."""
