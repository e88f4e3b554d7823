"""Resharding: values that change their layout between two meshes."""
