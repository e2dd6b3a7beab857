"""Risks in the network between nodes."""
