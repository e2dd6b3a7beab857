"""Risks in the timeouts of a job and in the evidence they leave."""
