"""Detectors: one part of a cause a file; each docstring is the page of its detector."""
