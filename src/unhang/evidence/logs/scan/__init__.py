"""The fast first pass over a large log: where known literals stand, and what is then read line by line."""
