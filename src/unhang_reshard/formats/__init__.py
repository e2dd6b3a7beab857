"""Samples of tables, images and shards: one format a file."""
