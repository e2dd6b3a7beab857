"""Traces of torch.profiler (Kineto's Chrome JSON, plain or gzip): read as a stream, in memory that does not grow.

``opening``: what a file is, and its bytes; ``pieces``: the bytes cut where events end; ``columns``: events as numbers,
on disk where they are many; ``names``: what a name means; ``sweep``: who did what when; ``reading``: all of it.
"""
