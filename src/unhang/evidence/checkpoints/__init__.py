"""Checkpoints on storage: which ones are whole. One layout per file; contents are never loaded."""
