"""Detectors: one cause a file, whose docstring is its page; one function a way to see it."""
