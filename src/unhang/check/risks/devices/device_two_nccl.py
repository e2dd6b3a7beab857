"""Another NCCL is loaded than the one torch came with.

What happens: a libnccl.so stands in ``LD_PRELOAD`` or ``LD_LIBRARY_PATH`` beside the wheel of torch.

Why it hangs: where ranks or nodes load different releases, they choose different algorithms and protocols and wait for
each other; a plug-in built for one release may fail with another.

Example: an image with NCCL 2.18.5 under ``/usr/local/nccl`` and ``pip install torch`` with 2.27.3.

Fix: take the folder out of the path, or use it everywhere; NCCL prints its release with ``NCCL_DEBUG=VERSION``.

Certain when: never; which file is loaded is known only to a process that runs.

Possible when: the releases differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.devices import NcclLibraries, NcclLibrary
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "driver"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what comes before the wheel's. The wheel names its own folder and finds it before LD_LIBRARY_PATH."""
    libraries = here.found(NcclLibraries) or NcclLibraries()
    wheel = next(iter(libraries.of("wheel")), None)
    if wheel is None:
        return
    others = [one for one in libraries.of("LD_PRELOAD", "LD_LIBRARY_PATH") if one.version != wheel.version]
    yield from (_finding(wheel, one) for one in others)
    if not others:
        yield PassedCheck(CHECK, say("one NCCL: {version}", version=wheel.version))


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Different releases in the wheels of different ranks or nodes."""
    nodes: dict[str, set[str]] = {}
    for situation in situations:
        for library in (situation.found(NcclLibraries) or NcclLibraries()).of("wheel", "LD_PRELOAD")[-1:]:
            nodes.setdefault(library.version or library.path, set()).add(situation.node)
    if len(nodes) < 2:
        return
    fewest = min(len(names) for names in nodes.values())
    rare = {name for names in nodes.values() if len(names) == fewest for name in names}
    told = "; ".join(f"{version}: {', '.join(sorted(names)[:8])}" for version, names in sorted(nodes.items()))
    yield risk(
        CHECK,
        "nccl",
        Cause.VERSION_MISMATCH,
        say("the nodes load different releases of NCCL: {told}", told=told),
        nodes=tuple(sorted(rare)),
        remedies=(_one(say("one image or one environment on all nodes")),),
    )


def _finding(wheel: NcclLibrary, other: NcclLibrary) -> Answer:
    preloaded = other.where == "LD_PRELOAD"
    summary = say(
        "{where} brings NCCL {other} beside the {version} of torch",
        where=other.where,
        other=other.version or other.path,
        version=wheel.version,
    )
    reason = (
        say("what is preloaded comes before the wheel's own")
        if preloaded
        else say("torch's wheel finds its own first; programs built against the other, and plug-ins, may not")
    )
    change = say("take {path} out of {where}, or use it on every rank", path=other.path, where=other.where)
    return risk(
        CHECK,
        other.where,
        Cause.VERSION_MISMATCH,
        summary,
        severity=Severity.SLOWS if preloaded else Severity.NOTE,
        certainty=Certainty.LIKELY if preloaded else Certainty.POSSIBLE,
        because=(reason,),
        evidence=(Evidence(Source(other.where), other.path),),
        remedies=(_one(change),),
    )


def _one(change: Text) -> Remedy:
    return Remedy(
        say("Let every rank load one NCCL"),
        RemedyKind.CONFIG,
        change,
        say("none"),
        say("NCCL_DEBUG=VERSION prints the same release on every rank"),
    )
