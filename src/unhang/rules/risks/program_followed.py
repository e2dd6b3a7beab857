"""A launch that was not followed to all of the program's own files.

What happens: the command does not lead to a script that could be read, a file of the program is no Python that can be
parsed, it loads code by a name that is known only when it runs, or the script imports modules that were found neither
beside it nor among the installed libraries.

Why it hangs: it need not; what stands in a file that nobody read is not known.

Example: ``bash run.sh``; ``import my_package`` where ``my_package`` is on a path that only the job sets.

Fix: give the command that starts Python, from the folder the job runs in.

Certain when: never; it is a question that could not be answered.

Possible when: the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.evidence.items import SourceFile
from unhang.facts.imported_files import loads_by_name
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Situation
from unhang.facts.program import parse_program
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
    unread = list(_unread(look.found.files))
    yield from unread
    if not (absent or look.found.partly or unread):
        yield Checked(
            CHECK,
            say("the script and all it imports of its own were read ({count} files)", count=len(look.found.files)),
        )


def _unread(files: tuple[SourceFile, ...]) -> Iterator[Answer]:
    """Files that tell nothing, or not everything, of what will run."""
    for file in files:
        what = say("The source of {path}", path=file.path)
        program = parse_program(file.text)
        if isinstance(program, str):
            yield NotChecked(what, say("it is no Python that can be read: {why}", why=program), check=CHECK)
        elif calls := list(loads_by_name(program.tree)):
            because = say("line {line} runs code that is named only when it runs", line=calls[0].lineno)
            yield NotChecked(what, because, check=CHECK)


def _named(names: tuple[str, ...]) -> str:
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" (+{rest})" if rest > 0 else "")
