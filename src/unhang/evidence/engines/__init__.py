"""Who reads what was found: processes of this machine, or the workers of a cluster next to the data."""
