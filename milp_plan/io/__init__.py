"""Readers and writers of instance and plan files."""
