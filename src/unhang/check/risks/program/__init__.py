"""Risks in the source of the program that will train."""
