"""Causes in the order and arguments of collectives."""
