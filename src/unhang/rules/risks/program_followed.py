"""A launch that was not followed to all of the program's own files.

What happens: the command does not lead to a script that could be read, or the script imports modules that were found
neither beside it nor among the installed libraries.

Why it hangs: it need not; what stands in a file that nobody read is not known.

Example: ``bash run.sh``; ``import my_package`` where ``my_package`` is on a path that only the job sets.

Fix: give the command that starts Python, from the folder the job runs in.

Certain when: never; it is a question that could not be answered.

Possible when: the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Situation
from unhang.findings import Checked, NotChecked, say
from unhang.rules.risks.risk import Answer, could_not

CHECK = "program"
MOST_NAMED = 8


def ask(here: Situation) -> Iterator[Answer]:
    """What of the program was not read; else how much of it was."""
    what = say("The source of the program")
    look = here.look(ProgramSource)
    if (gap := could_not(CHECK, what, look)) is not None:
        yield gap
    if look.found is None:
        return
    absent = look.found.absent
    if absent:
        because = say("found neither beside the script nor installed: {names}", names=_named(absent))
        yield NotChecked(what, because, "unhang check -- CMD, from the folder the job runs in", check=CHECK)
    if look.found.partly:
        because = say("it imports more than the {count} files that were read", count=len(look.found.files))
        yield NotChecked(what, because, check=CHECK)
    if not absent and not look.found.partly:
        yield Checked(
            CHECK,
            say("the script and all it imports of its own were read ({count} files)", count=len(look.found.files)),
        )


def _named(names: tuple[str, ...]) -> str:
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" (+{rest})" if rest > 0 else "")
