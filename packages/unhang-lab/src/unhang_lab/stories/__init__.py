"""Real training jobs that stall for the reasons people report, seen before, during and after, and repaired.

A story is a folder of ``stories/`` (in an installed package: ``unhang_lab/stories/folders/``). ``story_file.py`` says
what stands in its ``story.toml``.
"""
