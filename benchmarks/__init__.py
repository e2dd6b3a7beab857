"""Measurements, each beside its peer in the same run; run them with ``make bench``."""
