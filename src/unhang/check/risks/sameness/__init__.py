"""Risks in what differs between nodes, ranks and versions."""
