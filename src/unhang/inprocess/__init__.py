"""Inside the training process: passive. Never raises into training, never blocks it, imports only the standard library.

``docs/what-changes.md`` lists exactly what changes in a process this room got into.
"""
