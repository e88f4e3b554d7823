"""The independent checker: the laws of docs/laws.md, one module per rule."""
