"""The cards are there and their driver answers.

What happens: the driver's library and its kernel module are of different versions after an update, no module is loaded,
a container was started without its cards, or a card fell off the bus.

Why it hangs: the ranks that find no card end at the start, or work on the processor; the others wait for them.

Example: ``Failed to initialize NVML: Driver/library version mismatch`` after an unattended upgrade; ``Unable to
determine the device handle for GPU 0000:3B:00.0: GPU is lost``.

Fix: restart the machine (or load the new module), start the container with its cards, take the node out.

Certain when: never; the job may not need the cards.

Possible when: a card stands on the bus and no tool tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.devices import Cards, DriverFailure, OtherAccelerators, PciCard, PciCards
from unhang.check.environment.versions import Versions
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, NotChecked, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "devices"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what answers."""
    result, trouble = here.result(Cards), here.found(DriverFailure)
    on_bus = (here.found(PciCards) or PciCards()).of("nvidia")
    yield from _others(here)
    told = None if trouble is None else _trouble(trouble, on_bus=bool(on_bus))
    if told is not None:
        yield told
    elif result.because is not None and (gap := could_not(CHECK, say("The cards"), result)) is not None:
        yield gap
    if result.found is not None and result.found.cards:
        kinds = sorted({card.name for card in result.found.cards})
        yield PassedCheck(CHECK, say("{count} × {kinds}", count=len(result.found.cards), kinds=", ".join(kinds)))
    elif told is None and result.because is None and not on_bus and not _named(here):
        yield PassedCheck(CHECK, say("no GPU here: collectives run over Gloo"))
    elif told is None and result.because is None and on_bus:
        yield _unseen(here, on_bus)


def _named(here: NodeInspection) -> tuple[str, ...]:
    others = here.found(OtherAccelerators)
    return () if others is None else others.found


def _others(here: NodeInspection) -> Iterator[Answer]:
    others = here.found(OtherAccelerators) or OtherAccelerators()
    for name, said in zip(others.found, others.said, strict=True):
        how = {"AMD": "rocm-smi --showtopo --showpids", "Intel": "xpu-smi topology -m", "Gaudi": "hl-smi"}[name]
        what = say("The {name} cards: who uses them, how they reach each other, their health", name=name)
        yield NotChecked(what, say("only NVIDIA's are looked at ({said})", said=said), how, check=CHECK)


def _trouble(trouble: DriverFailure, *, on_bus: bool) -> Answer | None:
    """Silence of a tool on a machine without a card is no trouble; a refusal is a gap, not a finding."""
    evidence = (Evidence(Source("nvidia-smi"), trouble.said),)
    if trouble.kind == "mismatch":
        summary = say("the driver's library and its kernel module differ: no rank can use a card")
        change = say("restart the machine; in a container, start it anew after the host was updated")
        return _stops("driver", Cause.VERSION_MISMATCH, summary, change, evidence)
    if trouble.kind == "lost":
        summary = say("a card fell off the bus")
        change = say("take this node out of the job, restart it, and test the card: dcgmi diag -r 3")
        return _stops("card", Cause.GPU_HARDWARE, summary, change, evidence)
    if trouble.kind == "not-loaded" and on_bus:
        summary = say("the NVIDIA driver does not answer")
        change = say("sudo modprobe nvidia; if that fails, install the driver for this kernel")
        return _stops("driver", Cause.VERSION_MISMATCH, summary, change, evidence)
    return None


def _unseen(here: NodeInspection, on_bus: Sequence[PciCard]) -> Answer:
    """A card that is there for a monitor, or a torch without CUDA: nobody means to compute on it."""
    versions = here.found(Versions)
    torch = "" if versions is None else versions.of.get("torch", "")
    meant = any(card.compute for card in on_bus) and not torch.endswith("+cpu")
    return risk(
        CHECK,
        "driver",
        Cause.DEVICE_MAPPING,
        say("{count} NVIDIA cards stand on the bus, and none can be used here", count=len(on_bus)),
        severity=Severity.STOPS if meant else Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        remedies=(
            Remedy(
                say("Give the container its cards, or load the driver"),
                RemedyKind.INFRASTRUCTURE,
                say("docker run --gpus all; Kubernetes: limits nvidia.com/gpu; Slurm: --gres=gpu:N"),
                say("none"),
                say("nvidia-smi lists every card"),
            ),
        ),
    )


def _stops(subject: str, cause: Cause, summary: Text, change: Text, evidence: tuple[Evidence, ...]) -> Answer:
    remedy = Remedy(
        say("Bring the card back before the job starts"),
        RemedyKind.INFRASTRUCTURE,
        change,
        say("a restart of the machine"),
        say("nvidia-smi lists every card"),
    )
    return risk(CHECK, subject, cause, summary, evidence=evidence, remedies=(remedy,))
