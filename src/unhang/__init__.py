"""unhang: why did the ranks stop moving together, and what to change.

Nothing is imported here: this file runs in every child of a training job.
"""

__version__ = "0.1.0"
