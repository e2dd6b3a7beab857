"""Risks that the collective probe showed."""
