"""A run on a page: a small server that only reads, and the page it serves."""
