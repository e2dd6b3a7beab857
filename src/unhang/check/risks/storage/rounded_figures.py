"""Figures as people read them."""

from __future__ import annotations


def rounded(number: float) -> int | float:
    """Whole from a hundred on and where nothing is lost, one decimal from one on, two below."""
    short = round(number, 0 if number >= 100 else 1 if number >= 1 else 2)
    return int(short) if short == int(short) else short
