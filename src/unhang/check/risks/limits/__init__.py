"""Risks in the limits of this machine."""
