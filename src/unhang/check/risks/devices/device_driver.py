"""The driver is too old for the CUDA version torch was built for, or nodes have different drivers.

What happens: every release of CUDA needs a driver branch; minor releases share one. With an older driver torch finds no
card. Nodes with different drivers may choose different ways of talking to each other.

Why it hangs: ranks on the node with the old driver end at the start (``The NVIDIA driver on your system is too old``);
the others wait for them.

Example: torch 2.11 from PyPI (CUDA 13) on driver 550.

Fix: a driver of the branch that is named, or a wheel of torch for the older CUDA.

Certain when: never; a compatibility library may be loaded by a path that is not seen here.

Possible when: such a library is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.devices import Cards, NvidiaDriver, TorchCudaBuild
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.versions import VersionRow, version_matches, version_numbers, version_rows
from unhang.sentences import say

CHECK = "driver"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge this node."""
    built, cards = here.result(TorchCudaBuild), here.found(Cards)
    version = _version(here)
    if not version:
        return
    gap = could_not(CHECK, say("Whether the driver is new enough for torch"), built)
    if gap is not None:
        yield gap
    if built.found is None:
        return
    if not built.found.cuda:
        if cards is not None and cards.cards:
            yield _without_cuda(built.found, len(cards.cards))
        return
    row, numbers = _needed(built.found.cuda), version_numbers(version)
    if row is None or numbers is None:
        return
    if version_matches(row.affects, numbers):
        yield PassedCheck(CHECK, say("driver {driver} runs CUDA {cuda}", driver=version, cuda=built.found.cuda))
        return
    driver = here.found(NvidiaDriver)
    yield _too_old(version, built.found, row, "" if driver is None else driver.compat)


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Different drivers on different nodes."""
    nodes: dict[str, list[str]] = {}
    for situation in situations:
        version = _version(situation)
        if version and situation.node not in nodes.setdefault(version, []):
            nodes[version].append(situation.node)
    if len(nodes) < 2:
        return
    told = "; ".join(f"{version}: {', '.join(names[:8])}" for version, names in sorted(nodes.items()))
    rare = min(nodes.values(), key=len)
    yield risk(
        CHECK,
        "driver",
        Cause.VERSION_MISMATCH,
        say("the nodes have different drivers: {told}", told=told),
        severity=Severity.SLOWS,
        certainty=Certainty.POSSIBLE,
        nodes=tuple(rare),
        remedies=(
            Remedy(
                say("Install one driver on all nodes, or leave the odd ones out"),
                RemedyKind.INFRASTRUCTURE,
                say("nvidia-smi --query-gpu=driver_version --format=csv,noheader on every node"),
                say("a restart of these nodes"),
                say("unhang check on all nodes names one driver"),
            ),
        ),
    )


def _version(here: NodeInspection) -> str:
    """The kernel module's, or what nvidia-smi tells (WSL has no such module)."""
    driver, cards = here.found(NvidiaDriver), here.found(Cards)
    return driver.module if driver is not None else cards.driver if cards is not None else ""


def _needed(cuda: str) -> VersionRow | None:
    major = cuda.partition(".")[0]
    return next((row for row in version_rows() if row.package == "nvidia-driver" and row.cuda == major), None)


def _too_old(version: str, built: TorchCudaBuild, row: VersionRow, compat: str) -> Answer:
    branch = row.affects.lstrip(">= ")
    because = [say("torch was built for CUDA {cuda} ({how})", cuda=built.cuda, how=built.how)]
    if compat:
        because.append(say("{path} holds a compatibility library, which helps on data-centre cards", path=compat))
    return risk(
        CHECK,
        "driver",
        Cause.VERSION_MISMATCH,
        say(
            "driver {driver} is too old: CUDA {major} needs {branch} or newer",
            driver=version,
            major=row.cuda,
            branch=branch,
        ),
        certainty=Certainty.POSSIBLE if compat else Certainty.LIKELY,
        because=tuple(because),
        evidence=(Evidence(Source("/proc/driver/nvidia/version"), version), Evidence(Source(built.how), row.source)),
        remedies=(
            Remedy(
                say("Install a driver of branch {branch} or newer", branch=branch),
                RemedyKind.INFRASTRUCTURE,
                say("or take a wheel of torch for an older CUDA: https://pytorch.org/get-started/previous-versions/"),
                say("a restart of the machine; or an older release of torch"),
                say("python -c 'import torch; print(torch.cuda.is_available())' prints True"),
            ),
        ),
    )


def _without_cuda(built: TorchCudaBuild, cards: int) -> Answer:
    return risk(
        CHECK,
        "torch",
        Cause.VERSION_MISMATCH,
        say("{how} is built without CUDA: the {cards} cards here are not used", how=built.how, cards=cards),
        severity=Severity.SLOWS,
        remedies=(
            Remedy(
                say("Install a wheel of torch with CUDA, or check in the environment the job uses"),
                RemedyKind.INFRASTRUCTURE,
                say("https://pytorch.org/get-started/locally/"),
                say("a larger download"),
                say("python -c 'import torch; print(torch.version.cuda)' prints a number"),
            ),
        ),
    )
