"""Risks in the accelerators, their driver and how they are connected."""
