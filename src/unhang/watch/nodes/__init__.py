"""Watchers of one job on several nodes: they meet, send digests, and one of them gives the verdict for all."""
