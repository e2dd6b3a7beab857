"""Every word the page itself says; the script gets its share as data."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.sentences import Text, say

WORDS: Mapping[str, Text] = {
    "skip": say("Skip to the verdict"),
    "theme": say("Dark or light"),
    "why": say("Why"),
    "costs": say("Costs"),
    "check": say("Check"),
    "or": say("Or"),
    "cause": say("cause"),
    "certainty": say("certainty"),
    "ranks": say("ranks"),
    "node": say("node"),
    "group": say("group"),
    "phase": say("phase"),
    "since": say("stalled since"),
    "timeline": say("Who stands where"),
    "timeline_note": say("Each row is a rank (or ranks that stand alike), each column a position in the group."),
    "timeline_help": say("Arrow keys move, Home and End jump, Enter shows the stack of the row."),
    "timeline_script": say("The timeline needs JavaScript; everything else on this page does not."),
    "timeline_empty": say("No record of collectives was read."),
    "process_group": say("Process group"),
    "alike": say("Fold ranks that stand alike"),
    "find_rank": say("Find rank"),
    "done": say("finished"),
    "pending": say("entered, not finished"),
    "behind": say("entered behind an unfinished one"),
    "never": say("never entered"),
    "unknown": say("no word from the rank"),
    "graph": say("Who waits for whom"),
    "graph_empty": say("Nobody was seen waiting for another rank."),
    "left_out": say("more not shown"),
    "stacks": say("Stacks"),
    "stacks_note": say(
        "Ranks with equal Python frames stand together; innermost frame first; the user's own code is marked."
    ),
    "stacks_empty": say("No stacks were read."),
    "frames_cut": say("more frames"),
    "laggard": say("laggard"),
    "thread": say("thread"),
    "evidence": say("Evidence"),
    "rank": say("rank"),
    "cited": say("Cited lines"),
    "followed": say("What followed from it"),
    "others": say("Also found"),
    "shown": say("What shows that the job is well"),
    "differential": say("What it may be, by what known incidents that looked like this were"),
    "settles": say("To settle it"),
    "incidents": say("Known incidents that look like this"),
    "ended": say("What ended it"),
    "ruled_out": say("Ruled out"),
    "not_checked": say("Could not be checked"),
    "unread": say("Could not be read"),
    "restart": say("Restart"),
    "top": say("Back to the verdict"),
}

SCRIPT_WORDS: Mapping[str, Text] = {
    "rank": say("rank"),
    "ranks": say("ranks"),
    "position": say("position"),
    "done": say("finished"),
    "pending": say("entered, not finished"),
    "behind": say("entered behind an unfinished one"),
    "never": say("never entered"),
    "unknown": say("no word from the rank"),
    "laggard": say("laggard"),
    "stalled": say("stalled"),
    "different": say("a different call"),
}
