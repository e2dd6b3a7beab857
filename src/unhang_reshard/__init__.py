"""Equal shards: a data set written anew so that every rank and every loader worker gets as many samples as any other.

``reshard.reshard`` is the one function; it looks at every sample first (survey), settles the sizes (even), and writes
shard after shard, each whole or not there. It can be killed at any moment and called again.
"""
