"""Risks in the storage a job uses."""
