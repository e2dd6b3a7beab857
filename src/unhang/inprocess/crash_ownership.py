"""Who reports crashes: the program, once it called faulthandler itself, or we, where it has not decided."""

from __future__ import annotations

ours_reports_crashes = False
"""faulthandler is on because of us."""
users_reports_crashes = False


def crash_reports_are_the_users() -> None:
    """The program switched faulthandler on or off."""
    global ours_reports_crashes, users_reports_crashes
    ours_reports_crashes, users_reports_crashes = False, True
