"""Users, hosts, addresses and paths by stable names, so that a report can be shared."""
