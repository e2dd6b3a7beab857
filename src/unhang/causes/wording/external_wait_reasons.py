"""What one rank waits for outside of the job, and what ends that wait: a prompt, a lock, a peer, an actor, a child."""

from __future__ import annotations

import signal as signals
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath

from unhang.causes.evidence_lines import short_place
from unhang.evidence.items import Frame
from unhang.facts.model import Facts, RankFacts
from unhang.facts.stacks.calls_on_line import call_spelled_on_line
from unhang.facts.stacks.child_processes import (
    AWAITS_CHILDREN,
    AwaitedChild,
    awaited_children,
    hands_over,
    partner_child,
)
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.findings import Evidence, Remedy, Where
from unhang.knowledge.activities import row_of_frame
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.program.syntax.syntax_tree import find_source
from unhang.sentences import Text
from unhang.wire.documents.bundle import EndedChild, HeldLock

tell = Sentences("causes/shared.toml")
_ASKS_A_PEER = ("http", "socket", "download")
_WOKEN_BY_THREADS = ("queue-wait", "lock-wait", "join", "dataloader-wait")
_MAX_CHILDREN = 2
"""Of a pool, whose processes are alike."""


def because(facts: Facts, laggards: RankCohort) -> Iterator[Text]:
    """What it waits for, as far as it could be seen."""
    known = facts.ranks[laggards.ranks[0]]
    if (tried := laggards.stack_context.tried_again) is not None:
        caught = tried.caught or "exception"
        if tried.pause:
            yield tell("tried-after", caught=caught, line=tried.handler, pause=tried.pause)
        else:
            yield tell("tried-again", caught=caught, line=tried.handler)
    if laggards.what == "file-lock":
        yield from (_held_by(lock) for lock in _locks(facts, known))
    if laggards.what in _ASKS_A_PEER and known.process.awaits.peers:
        yield tell("waits-for-peer", peer=", ".join(known.process.awaits.peers))
    child, way = partner_child(known), known.process.awaits.pipe
    if child is not None and way and child.waits == way:
        yield tell("both-write" if way == "write" else "both-read", pid=child.pid)
    if (pid := hands_over(known)) is not None:
        yield tell("hands-over", pid=pid)
    if laggards.what in _WOKEN_BY_THREADS and _is_alone(known):
        yield tell("nobody-left")
    if laggards.what in (*AWAITS_CHILDREN, "dataloader-wait"):
        yield from (_ended(child) for child in known.process.awaits.ended_children)
        yield from (_stands(child, known) for child in _children(facts, known))


def _is_alone(known: RankFacts) -> bool:
    """One Python thread was seen in its process, which waits for no other process."""
    if known.stack is None or known.process.from_record or known.worker_stacks or known.process.awaits.children:
        return False
    python = [frames for thread in known.stack.threads if (frames := [f.file for f in thread.frames if not f.native])]
    return len(python) == 1 and not any("multiprocess" in file for file in python[0])


def evidence(facts: Facts, laggards: RankCohort) -> tuple[Evidence, ...]:
    """The stacks of the children that it may wait for."""
    return tuple(child.evidence for child in _children(facts, facts.ranks[laggards.ranks[0]]))


def child_text(known: RankFacts) -> Text | None:
    """For which of its children it waits, and in a pipe how."""
    if (pid := hands_over(known)) is not None:
        return tell("for-queue", pid=pid)
    child, way = partner_child(known), known.process.awaits.pipe
    if child is None:
        return None
    name = {"pid": child.pid, "command": child.command}
    return tell("pipe-write" if way == "write" else "pipe-read" if way else "for-program", **name)


def idle_child(facts: Facts, rank: int) -> AwaitedChild | None:
    """The only child that ``rank`` may wait for, where it and the child use nothing between two looks."""
    known = facts.ranks[rank]
    children = tuple(awaited_children(facts, known)) if known.process.idle else ()
    return children[0] if len(children) == 1 and not children[0].active else None


def awaits_idle_child(facts: Facts, laggards: RankCohort) -> bool:
    """It waits for a child, and nothing shows one that works."""
    known = facts.ranks[laggards.ranks[0]]
    if laggards.what not in AWAITS_CHILDREN and partner_child(known) is None:
        return False
    if (partner := partner_child(known)) is not None and partner.waits:
        return True
    children = tuple(awaited_children(facts, known))
    return known.process.idle or (bool(children) and not any(child.active for child in children))


def remedies(facts: Facts, laggards: RankCohort) -> Iterator[Remedy]:
    """What ends this wait; nothing for work that only takes long."""
    known = facts.ranks[laggards.ranks[0]]
    if (pid := hands_over(known)) is not None:
        yield remedy("take-before-join", pid=pid)
        return
    if (child := partner_child(known)) is not None and child.waits:
        yield remedy("drain-child-pipe", pid=child.pid)
        return
    place = short_place(laggards.where)
    if laggards.what == "debugger":
        yield remedy("remove-interactive-prompt", place=place)
    elif laggards.what == "file-lock":
        yield _free_the_lock(facts, known)
    elif laggards.what in _ASKS_A_PEER:
        peer = ", ".join(known.process.awaits.peers) or "the server"
        yield remedy("add-request-timeout", place=place, peer=peer)
    elif laggards.what == "ray-get":
        yield remedy("inspect-awaited-actor", call=_spelled(facts, laggards) or place)
    elif laggards.what in AWAITS_CHILDREN:
        yield from _of_children(facts, known)
    if laggards.stack_context.tried_again is not None:
        yield remedy("limit-retries", line=laggards.stack_context.tried_again.line)


def find_why_line_stays(frames: Sequence[Frame], where: Where) -> Remedy:
    """What to look for at a line that never returns."""
    inner = frames[0] if frames else None
    row = row_of_frame(inner.function, inner.file, native=inner.native) if inner is not None else None
    if row is not None and row.what == "regex":
        return remedy("bound-regular-expression", place=short_place(where))
    return remedy("find-why-line-goes-on", function=where.function, place=short_place(where))


def _locks(facts: Facts, known: RankFacts) -> tuple[HeldLock, ...]:
    """Those that the program names, where it names one: other programs of the machine hold locks as well."""
    texts = [source.text for source in facts.sources.values()]
    named = tuple(o for o in known.process.awaits.locks if any(PurePosixPath(o.path).name in text for text in texts))
    return named or known.process.awaits.locks


def _free_the_lock(facts: Facts, known: RankFacts) -> Remedy:
    lock = next(iter(_locks(facts, known)), None)
    if lock is None:
        return remedy("find-file-lock-holder", pid=known.pid or "[0-9]*")
    return remedy("release-file-lock", path=lock.path or "?", pid=lock.pid)


def _children(facts: Facts, known: RankFacts) -> tuple[AwaitedChild, ...]:
    return tuple(islice(awaited_children(facts, known), _MAX_CHILDREN))


def _of_children(facts: Facts, known: RankFacts) -> Iterator[Remedy]:
    """Of a child that was seen on a processor nothing: it works."""
    children = [child for child in _children(facts, known) if not child.active]
    program = partner_child(known)
    if program is not None and not children and known.process.idle:
        yield remedy("inspect-awaited-program", pid=program.pid, command=program.command)
    for child in children[:1]:
        if not child.lock:
            yield remedy("inspect-awaited-child", pid=child.pid, place=short_place(child.where))
        if child.forked:
            yield remedy("spawn-instead-of-fork")
    for ended in known.process.awaits.ended_children[:1]:
        yield remedy("find-child-exit-reason", pid=ended.pid)


def _spelled(facts: Facts, laggards: RankCohort) -> str | None:
    source = find_source(facts.sources, laggards.where.file) if laggards.where is not None else None
    if source is None or laggards.where is None or laggards.where.line is None:
        return None
    return call_spelled_on_line(source, laggards.where.line, "get")


def _held_by(lock: HeldLock) -> Text:
    if lock.started_s is None:
        return tell("locked-by", path=lock.path, pid=lock.pid, command=lock.command)
    return tell(
        "locked-since",
        path=lock.path,
        pid=lock.pid,
        command=lock.command,
        since=time.strftime("%H:%M:%S", time.localtime(lock.started_s)),
    )


def _ended(child: EndedChild) -> Text:
    if not child.signal:
        return tell("child-exited", pid=child.pid, code=child.exit_code)
    name = str(child.signal)
    with suppress(ValueError):
        name = signals.Signals(child.signal).name
    return tell("child-ended", pid=child.pid, signal=name)


def _stands(child: AwaitedChild, known: RankFacts) -> Text:
    where = child.where
    if child.lock:
        holder = f" ({child.holder})" if child.holder else ""
        return tell("child-forked", pid=child.pid, lock=child.lock, file=where.file, line=where.line, holder=holder)
    return tell(
        "child-idle" if known.process.idle else "child-is",
        pid=child.pid,
        function=where.function,
        file=where.file,
        line=where.line,
    )
