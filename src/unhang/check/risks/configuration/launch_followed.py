"""How the command leads to the program, and what on the way was not understood.

What happens: between the command that is typed and the program stand scripts, wrappers and launchers. What they decide
only when they run (the number of cards, the name of a node) is not known before.

Why it hangs: it need not; what was not understood may set a limit, a variable or another program.

Example: ``export MASTER_ADDR=$(scontrol show hostnames | head -n 1)``; ``torchrun --nproc_per_node $NGPU`` where
nothing sets ``NGPU``.

Fix: give the values in the environment of ``unhang check``, or the command that starts Python.

Certain when: never; it says what was read.

Possible when: the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer
from unhang.findings import NotChecked, PassedCheck
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch, NotUnderstood
from unhang.sentences import Text, say

CHECK = "configuration"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """What was followed, and what was not understood."""
    launch = here.found(Launch)
    if launch is None or not launch.program:
        return
    followed = launch.followed
    for one in followed.not_understood:
        yield NotChecked(_place(one), one.what, check=CHECK)
    if followed.image:
        what = say("What is inside {image}", image=followed.image)
        yield NotChecked(what, say("containers and other hosts are not looked into"), check=CHECK)
    if followed.place is not None or followed.trail:
        yield PassedCheck(CHECK, _way(launch))


def _place(one: NotUnderstood) -> Text:
    if one.source is None:
        return say("The way to the program")
    if one.source.line is None:
        return say("The way to the program ({path})", path=one.source.path)
    return say("The way to the program ({path}:{line})", path=one.source.path, line=one.source.line)


def _way(launch: Launch) -> Text:
    """``run.sh → torchrun, 8 processes → train.py``."""
    steps = [*launch.followed.trail, launch.outer if launch.outer != launch.launcher else ""]
    before = "".join(f"{step} → " for step in steps if step)
    program = launch.program.removeprefix("-m ")
    folder = launch.followed.folder
    if launch.processes is None:
        way = say("{before}{launcher} → {program}", before=before, launcher=launch.launcher, program=program)
    else:
        way = say(
            "{before}{launcher}, {count} processes → {program}",
            before=before,
            launcher=launch.launcher,
            count=launch.world_size or launch.processes,
            program=program,
        )
    return say("{way} (in {folder})", way=way, folder=folder) if folder else way
