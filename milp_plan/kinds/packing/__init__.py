"""Packing: addresses for buffers in one memory."""
