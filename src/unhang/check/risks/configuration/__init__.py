"""Risks in the planned command and its configuration."""
