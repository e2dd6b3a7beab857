"""Every word of the page that is not made of a run's state; the script gets its share as data."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.sentences import Text, say

PAGE_TEXTS: Mapping[str, Text] = {
    "skip": say("Skip to the ranks"),
    "theme": say("Dark or light"),
    "begin": say("Reading the run"),
    "report": say("Read the report"),
    "script": say("This page needs JavaScript; unhang view shows the same in the terminal."),
    "ranks_title": say("Ranks"),
    "grid_help": say("A sign a rank, grouped by node. Arrow keys move, Enter or a click shows the rank."),
    "find_rank": say("Find rank"),
    "groups_title": say("Positions"),
    "group": say("group"),
    "ranks": say("ranks"),
    "position": say("position"),
    "behind": say("behind"),
    "now_title": say("What the ranks do now"),
    "time_title": say("Ranks over time"),
    "time_help": say(
        "Drag or arrow keys move, Ctrl and the wheel or + and − zoom, 0 shows all, a click shows the rank."
    ),
    "time": say("time"),
    "zoom_in": say("Zoom in"),
    "zoom_out": say("Zoom out"),
    "fewer": say("Fewer ranks"),
    "more_ranks": say("More ranks"),
    "all": say("Show all"),
    "machine_of": say("Machine"),
    "close": say("Close"),
}

SCRIPT_TEXTS: Mapping[str, Text] = {
    "rank": say("rank"),
    "ranks": say("ranks"),
    "node": say("node"),
    "step": say("step"),
    "phase": say("phase"),
    "does": say("does"),
    "group": say("group"),
    "waits": say("waits for others"),
    "late": say("late: others wait for it"),
    "stands_at": say("stands at"),
    "a_step": say("a step"),
    "trouble": say("gives no sign, stopped or ended badly"),
    "stalled": say("stalled"),
    "verdict": say("verdict"),
    "gone": say("The server has ended or cannot be reached. This is what it said last; the run itself may go on."),
    "refused": say("The server refuses this address: take the whole one that unhang view printed, with its token."),
    "no_rank": say("no rank has been seen yet"),
    "no_series": say("No series of this run was kept: from here on, what this page saw."),
    "more": say("more not shown"),
    "now_stack": say("Stack now, as its record tells"),
    "look_stack": say("Stack at the last look"),
    "no_stack": say("No stack of it was kept: a look is taken when ranks wait."),
    "log": say("Last lines"),
    "no_log": say(
        "No log of this rank alone is in the run folder: torchrun --log-dir DIR --redirects 3 keeps one a rank, "
        "which is copied with a verdict."
    ),
    "positions": say("Positions"),
    "no_run": say("Nothing is known of this run yet"),
    "seconds": say("{count} s", count="{}"),
    "minutes": say("{count} min", count="{}"),
    "hours": say("{time} h", time="{}"),
}
