"""How a command leads to the program that trains: through shell scripts, wrappers, launchers and console scripts.

Files are read as the shell would take them; nothing is run. What only running would tell is kept as it is written, and
named.
"""
