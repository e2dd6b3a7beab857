"""Risks in environment variables."""
