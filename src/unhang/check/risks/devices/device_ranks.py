"""Two ranks would share a card.

What happens: more processes are started than cards are seen, two ranks see the same single card, cards are cut into
slices (MIG), or a card's compute mode lets nobody in.

Why it hangs: NCCL refuses two ranks on one card (``Duplicate GPU detected``), also in different slices of it; a rank
that asks for a card that is not there fails, and the others wait for it.

Example: ``torchrun --nproc-per-node 8`` with four cards; every Slurm task with ``CUDA_VISIBLE_DEVICES=0`` and one node.

Fix: one process a card; ``torch.cuda.set_device(LOCAL_RANK)``; switch MIG off for jobs of several ranks.

Certain when: never; a program may use Gloo or the processor.

Possible when: the numbers are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.devices.devices import Card, DeviceSelection
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Evidence, PassedCheck, Remedy, RemedyKind, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.sentences import Text, say

CHECK = "devices"
_OPTION = {"accelerate": "--num_processes", "deepspeed": "--num_gpus", "srun": "--ntasks-per-node", "mpirun": "-np"}


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Compare the command with the cards that are seen."""
    chosen, launch = find_chosen_cards(here), here.found(Launch) or Launch()
    if chosen is None:
        return
    processes = launch.processes or 1
    if chosen.mig or (processes > 1 and any(card.mig for card in chosen.visible)):
        yield _sliced(chosen.mig)
    elif processes > len(chosen.visible) and launch.processes and not chosen.unknown and not chosen.twice:
        yield _too_many(launch, processes, len(chosen.visible))
    elif launch.processes and chosen.cards:
        yield PassedCheck(CHECK, say("{count} processes for {cards} cards", count=processes, cards=len(chosen.visible)))
    closed = [card for card in chosen.cards if card.compute_mode == "Prohibited"]
    if closed:
        yield _closed(closed)


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Two ranks of one node with the same card."""
    places: dict[tuple[str, str], list[int]] = {}
    for situation in situations:
        card = _card_of_rank(situation)
        if card is not None and situation.rank is not None:
            places.setdefault((situation.node, card.uuid or str(card.index)), []).append(situation.rank)
    shared = {place: ranks for place, ranks in places.items() if len(ranks) > 1}
    for (node, card_id), ranks in shared.items():
        yield risk(
            CHECK,
            f"{node} {card_id}",
            Cause.DEVICE_MAPPING,
            say("{ranks:who} would use the same card", ranks=ranks),
            ranks=tuple(ranks),
            nodes=(node,),
            remedies=(_one_each(say("one task sees one card, or all see all and set_device(LOCAL_RANK) picks")),),
        )


def _card_of_rank(situation: NodeInspection) -> Card | None:
    chosen, choice = find_chosen_cards(situation), situation.found(DeviceSelection)
    if chosen is None or choice is None or not chosen.visible:
        return None
    if len(chosen.visible) == 1:
        return chosen.visible[0]
    at = choice.local_rank
    return chosen.visible[at] if at is not None and at < len(chosen.visible) else None


def _too_many(launch: Launch, processes: int, cards: int) -> Answer:
    option = _OPTION.get(launch.outer or launch.launcher, "--nproc-per-node")
    return risk(
        CHECK,
        option,
        Cause.DEVICE_MAPPING,
        say("{processes} processes would be started, and {cards} cards are seen", processes=processes, cards=cards),
        because=(say("NCCL refuses two ranks on one card: Duplicate GPU detected"),),
        evidence=(Evidence(Source("command"), f"{option} {processes}"),),
        remedies=(_one_each(say("{option} {cards}", option=option, cards=cards)),),
    )


def _sliced(words: Sequence[str]) -> Answer:
    return risk(
        CHECK,
        "MIG",
        Cause.DEVICE_MAPPING,
        say("the cards are cut into slices (MIG): a process sees one slice, and NCCL joins none of one card"),
        evidence=(Evidence(Source("nvidia-smi"), ", ".join(words) or "mig.mode.current: Enabled"),),
        remedies=(
            Remedy(
                say("Switch MIG off, or train on one slice with one process"),
                RemedyKind.INFRASTRUCTURE,
                say("sudo nvidia-smi -mig 0, when nobody uses the card"),
                say("the slices of other users"),
                say("nvidia-smi -L lists no MIG device"),
            ),
        ),
    )


def _closed(cards: Sequence[Card]) -> Answer:
    return risk(
        CHECK,
        "compute mode",
        Cause.DEVICE_MAPPING,
        say(
            "{cards:card|cards} {cards} {cards:lets|let} no process compute (compute mode Prohibited)",
            cards=[card.index for card in cards],
        ),
        remedies=(
            Remedy(
                say("Open the card"),
                RemedyKind.INFRASTRUCTURE,
                say("sudo nvidia-smi -i {index} -c DEFAULT", index=cards[0].index),
                say("none"),
                say("nvidia-smi shows Default"),
            ),
        ),
    )


def _one_each(change: Text) -> Remedy:
    return Remedy(
        say("Start one process a card"),
        RemedyKind.CONFIG,
        change,
        say("fewer processes"),
        say("unhang check --only devices counts both alike"),
    )
