"""Who reports crashes: the program, once it called faulthandler itself, or we, where it has not decided."""

from __future__ import annotations

ours_reports_crashes = False
"""faulthandler is on because of us."""
users_reports_crashes = False
users_timer = False
"""The program used dump_traceback_later, of which a process has one."""


def crash_reports_are_the_users() -> None:
    """The program switched faulthandler on or off."""
    global ours_reports_crashes, users_reports_crashes
    ours_reports_crashes, users_reports_crashes = False, True


def the_timer_is_the_users() -> None:
    """The program set or cancelled faulthandler's timer."""
    global users_timer  # noqa: PLW0603
    users_timer = True
