"""Who reports crashes: the program, once it called faulthandler itself, or we, where it has not decided."""

from __future__ import annotations

unhang_reports_crashes = False
"""faulthandler is on because of us."""
user_reports_crashes = False


def mark_user_owned() -> None:
    """The program switched faulthandler on or off."""
    global unhang_reports_crashes, user_reports_crashes
    unhang_reports_crashes, user_reports_crashes = False, True
