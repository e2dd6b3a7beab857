"""Watchers of one job on several nodes: who leads, what each tells of its ranks."""
