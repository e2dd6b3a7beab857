"""Readers of stack dumps: py-spy (text and JSON), faulthandler, gdb. One format a file."""

from unhang.evidence.stacks.reading import looks_like_stack, read_stacks

__all__ = ["looks_like_stack", "read_stacks"]
