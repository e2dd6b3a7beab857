"""JSON that our processes write for each other and for ``unhang diagnose``: each format once, read and written."""
