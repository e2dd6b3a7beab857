"""Checkpoints on storage: which ones are whole."""
