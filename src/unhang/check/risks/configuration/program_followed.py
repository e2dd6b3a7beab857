"""A launch that was not followed to all of the program's own files.

What happens: the command does not lead to a script that could be read, the script imports modules that were found
nowhere or whose names only running tells, or an argument names code that is not there.

Why it hangs: it need not; what stands in a file that nobody read is not known.

Example: ``bash run.sh``; ``import my_package`` where ``my_package`` is on a path that only the job sets;
``import_module(name)``; ``--reward_module rewards.py`` in another folder.

Fix: give the command that starts Python, from the folder the job runs in, in the environment it runs in.

Certain when: never; it is a question that could not be answered.

Possible when: the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, could_not
from unhang.findings import NotChecked, PassedCheck
from unhang.host.inspection_result import NodeInspection
from unhang.program.program_source import ProgramSource, UntakenBranch
from unhang.sentences import Text, say

CHECK = "program"
MAX_NAMED = 8
MAX_BRANCHES = 3


def ask(here: NodeInspection) -> Iterator[Answer]:
    """What of the program was not read, and how much of it was."""
    result = here.result(ProgramSource)
    if (gap := could_not(CHECK, say("The source of the program"), result)) is not None:
        yield gap
    if result.found is None:
        return
    program, gaps = result.found, list(_gaps(result.found))
    yield from gaps
    if gaps:
        yield PassedCheck(CHECK, _read(program))
    else:
        yield PassedCheck(
            CHECK, say("the script and all it imports of its own were read ({read})", read=_read(program))
        )
    if program.unreached:
        yield PassedCheck(
            CHECK, say("{count} functions that nothing in this launch calls were left out", count=program.unreached)
        )
    if program.left_out:
        yield PassedCheck(CHECK, _left_out(program.left_out))


def _gaps(program: ProgramSource) -> Iterator[NotChecked]:
    what = say("The source of the program")
    here = "unhang check -- CMD, from the folder and in the environment the job runs in"
    if program.absent:
        because = say("found neither on its path nor installed: {names}", names=_named(program.absent))
        yield NotChecked(what, because, here, check=CHECK)
    if program.libraries_absent:
        because = say(
            "training libraries that it calls are not installed: {names}", names=_named(program.libraries_absent)
        )
        yield NotChecked(what, because, here, check=CHECK)
    if program.computed:
        because = say("what is imported there only running tells: {names}", names=_named(program.computed))
        yield NotChecked(what, because, check=CHECK)
    if program.unreadable:
        because = say("could not be read as Python: {names}", names=_named(program.unreadable))
        yield NotChecked(what, because, check=CHECK)
    if program.not_understood:
        because = say("arguments that were not understood: {names}", names=_named(program.not_understood))
        yield NotChecked(what, because, check=CHECK)
    if program.partly:
        because = say("it imports more than the {count} files that were read", count=len(program.files))
        yield NotChecked(what, because, check=CHECK)


def _read(program: ProgramSource) -> Text:
    if not program.libraries:
        return say("{count} files", count=len(program.files))
    return say(
        "{count} files, and {libraries} of training libraries",
        count=len(program.files),
        libraries=len(program.libraries),
    )


def _left_out(branches: tuple[UntakenBranch, ...]) -> Text:
    """How many, and why the first ones: the reader checks whether that is the launch that was meant."""
    why = dict.fromkeys(f"{name}={value} ({place})" for one in branches for name, value, place in one.settings)
    return say(
        "{count} branches that this launch never takes were left out: {why}",
        count=len(branches),
        why=_named(tuple(why), MAX_BRANCHES),
    )


def _named(names: tuple[str, ...], most: int = MAX_NAMED) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" (+{rest})" if rest > 0 else "")
