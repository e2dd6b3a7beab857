"""They run things to find out: the collective probe, and the search for the smallest workaround.

``python -m unhang.check.probe`` is a process of its own that imports torch, forks ranks, watches them and ends them;
whoever starts it gets one line of JSON. Nothing here runs inside the process that reports.
"""
