"""Which lines, loops and values of one file depend on the rank."""
