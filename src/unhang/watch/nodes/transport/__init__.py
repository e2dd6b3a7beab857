"""How watchers find each other and carry values and evidence between nodes."""
