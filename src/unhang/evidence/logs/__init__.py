"""Reading logs: whatever a training job, its launcher or the kernel printed, of any size and in any encoding."""

from unhang.evidence.logs.reading import looks_like_log, read_log

__all__ = ["looks_like_log", "read_log"]
