"""Which cards the planned job would use, and which would suit it better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

from unhang.check.devices.devices import (
    AccessControl,
    Card,
    Cards,
    CardTopology,
    DeviceSelection,
    Iommu,
    PciCards,
    PeerAccess,
)
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.late_pattern import late_pattern
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import job_value, mentions
from unhang.sentences import Text

MAX_PAIRS = 400_000
"""So many ways are compared: every choice of 8 among 16 cards."""
CROWDED_BYTES = whole_threshold("chosen_cards.crowded_bytes")
LISTED_BYTES = whole_threshold("chosen_cards.listed_bytes")
CROWDED_SHARE = threshold("chosen_cards.crowded_share")
BUSY_PERCENT = whole_threshold("chosen_cards.busy_percent")
GOOD_DRIVER = (550, 40, 7)
"""What accelerate asks for before it leaves P2P on between RTX 40 cards (``check_cuda_p2p_ib_support``)."""
MAX_RANKS = 1024  # of one node; more is no number of processes
_SPAWNS = late_pattern(r"\b(?:spawn|start_processes)\([^#]{0,400}?\bnprocs\s*=\s*(?:\w+\.)*([A-Za-z_]\w*)\s*[,)]")
_NUMBERS = re.compile(r"\d+(?:,\d+)*")
_MASK = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}")
_STARTS_DEEPSPEED = ("deepspeed.launcher.runner.main(",)
_WHERE = ("hostfile", "include", "exclude", "num_nodes", "num_gpus", "deepspeed_slurm", "deepspeed_mpi", "launcher")
"""Settings by which DeepSpeed starts something else than one process for each card of this node."""
_Named = tuple[tuple[str, ...], str]
"""Numbers of cards, and how the command writes them, with ``{cards}`` in their place."""


@dataclass(frozen=True, slots=True)
class ChosenCards:
    """``cards``: those the job would use, in its order; ``visible``: all it could see; ``unknown``: a word of
    CUDA_VISIBLE_DEVICES that names no card (it and what follows are not seen); ``twice``: a word that stands twice;
    ``mig``: words that name slices of a card; ``named``: the user named the cards.
    """

    cards: tuple[Card, ...] = ()
    visible: tuple[Card, ...] = ()
    unknown: str = ""
    twice: str = ""
    mig: tuple[str, ...] = ()
    named: bool = False
    given: bool = False
    """By a scheduler: other cards are other users'."""
    option: str = ""
    """How the command names them, with ``{cards}`` in their place; empty: by CUDA_VISIBLE_DEVICES."""

    @property
    def subject(self) -> str:
        """What names the cards."""
        return re.split("[ =:]", self.option)[0] if self.named and self.option else "CUDA_VISIBLE_DEVICES"

    @property
    def indices(self) -> tuple[int, ...]:
        """nvidia-smi's indices of the cards, in order."""
        return tuple(card.index for card in self.cards)


def find_chosen_cards(here: NodeInspection) -> ChosenCards | None:
    """The cards of the planned job; None where nothing is known of cards or of the environment.

    A command that starts fewer processes than cards are seen uses the first of them.
    """
    cards, choice, launch = here.found(Cards), here.found(DeviceSelection), here.found(Launch)
    if cards is None or not cards.cards or choice is None:
        return None
    chosen = visible_cards(cards, choice)
    count = (launch.processes if launch is not None else None) or len(chosen.visible)
    named, given = choice.words is not None, bool(choice.scheduler)
    return replace(chosen, cards=chosen.visible[:count], named=named, given=given, option=choice.option)


def ranks_here(here: NodeInspection) -> int | None:
    """Processes on this node: as the command says, else as many as the program spawns by a setting."""
    launch, program = here.found(Launch) or Launch(), here.found(ProgramSource) or ProgramSource()
    spawns = [found[1] for file in program.files for found in _SPAWNS.finditer(file.text)]
    told = [job_value(here, name) for name in dict.fromkeys(spawns)]
    number = str(told[0].value) if len(told) == 1 and told[0] is not None else ""
    return launch.processes or (int(number) if number.isdecimal() and 0 < int(number) <= MAX_RANKS else None)


def ranks_to_start(here: NodeInspection) -> int | None:
    """Processes on all nodes, as the command says; one for each visible card where it leaves that to DeepSpeed on this
    node. None where it is not known."""
    launch, chosen = here.found(Launch) or Launch(), find_chosen_cards(here)
    if launch.processes is not None or chosen is None:
        return launch.world_size
    by_program = launch.launcher == "python" and mentions(here, _STARTS_DEEPSPEED)
    told = [name for name in _WHERE if name in launch.options or job_value(here, name) is not None]
    starts = (launch.launcher == "deepspeed" and launch.nodes == 1) or by_program
    return len(chosen.visible) or None if starts and not told else None


def visible_cards(cards: Cards, choice: DeviceSelection) -> ChosenCards:
    """As the CUDA runtime reads the list: it ends at the first word that names nothing; a double empties it."""
    if choice.words is None:
        return ChosenCards(visible=cards.cards)
    seen: list[Card] = []
    mig: list[str] = []
    for word in choice.words:
        if word.startswith("MIG-"):
            mig.append(word)
            continue
        card = _card_of(cards, word)
        if card is None:
            return ChosenCards(visible=tuple(seen), unknown=word, mig=tuple(mig))
        if card in seen:
            return ChosenCards(twice=word, mig=tuple(mig))
        seen.append(card)
    return ChosenCards(visible=tuple(seen), mig=tuple(mig))


def _card_of(cards: Cards, word: str) -> Card | None:
    if word.startswith("GPU-"):
        return cards.of_uuid(word)
    return next((card for card in cards.cards if word == str(card.index)), None)


def is_crowded(cards: Cards, card: Card) -> bool:
    """Whether somebody computes on ``card``: a process is listed, or its memory or time is taken (in a container the
    processes of others are not listed)."""
    taken = card.used >= max(CROWDED_BYTES, int(card.memory * CROWDED_SHARE))
    listed = any(process.used >= LISTED_BYTES or not process.used for process in cards.on(card))
    return taken or listed or (card.busy or 0) >= BUSY_PERCENT


def better_choice(cards: Cards, ways: CardTopology, chosen: ChosenCards) -> tuple[Card, ...] | None:
    """As many idle cards of one kind that lie nearer to each other, or that are idle where the chosen ones are not.

    None when there are none, or when a scheduler gave the cards out.
    """
    if chosen.given:
        return None
    wanted = len(chosen.cards)
    kinds = [card.name for card in chosen.cards]
    kind = max(kinds, key=kinds.count, default="")  # of as many of two kinds, the first card's
    free = [card for card in cards.cards if card.name == kind and not is_crowded(cards, card)]
    most = MAX_PAIRS // max(1, wanted * (wanted - 1) // 2)
    sets: Iterator[tuple[Card, ...]] = islice(combinations(free, wanted), most)
    best = min(sets, key=lambda some: _spread(ways, some), default=None)
    if best is None or wanted < 1:
        return None
    crowded = any(is_crowded(cards, card) for card in chosen.cards) or len(set(kinds)) > 1
    nearer = (farthest_link(ways, best) or 0) < (farthest_link(ways, chosen.cards) or 0)
    return best if nearer or crowded else None


def variable_for(cards: Sequence[Card]) -> dict[str, str]:
    """The variable that chooses ``cards``."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(card.index) for card in cards)}


def topology_from_numa(cards: Cards, bus: PciCards) -> CardTopology:
    """What NUMA nodes alone tell: cards of one node, or of two. Nothing where a card's node is not known."""
    nodes = {card.bus: card.numa for card in bus.cards}
    numa = {card.index: node for card in cards.cards if (node := nodes.get(card.bus)) is not None}
    if len(numa) < len(cards.cards):
        return CardTopology(told=False)
    ways = {(a, b): "NODE" if numa[a] == numa[b] else "SYS" for a in numa for b in numa if a != b}
    return CardTopology(ways, numa, told=False)


def farthest_link(ways: CardTopology, cards: Sequence[Card]) -> int | None:
    """The longest way between two of ``cards``; None when one is not known or there is only one card."""
    found = [ways.distance(one.index, other.index) for one, other in combinations(cards, 2)]
    known = [distance for distance in found if distance is not None]
    return max(known) if known and len(known) == len(found) else None


def _spread(ways: CardTopology, cards: Sequence[Card]) -> tuple[int, int]:
    found = [ways.distance(one.index, other.index) or 0 for one, other in combinations(cards, 2)]
    return max(found, default=0), sum(found)


def offers_unsupported_p2p(cards: Cards, chosen: ChosenCards) -> bool:
    """Whether an old driver offers P2P between cards that have none."""
    numbers = version_numbers(cards.driver)
    return numbers is not None and numbers < GOOD_DRIVER and any("RTX 40" in card.name for card in chosen.cards)


def barred_pairs(peers: PeerAccess, chosen: ChosenCards) -> list[tuple[int, int, str]]:
    """Pairs of the job's cards that may not read each other's memory, with the state nvidia-smi gives them."""
    pairs = combinations(chosen.indices, 2)
    states = [(one, other, peers.states.get((one, other), "OK")) for one, other in pairs]
    return [pair for pair in states if pair[2] not in ("OK", "X")]


def is_p2p_redirected(here: NodeInspection) -> bool:
    """Whether what the job's cards exchange directly is sent up to the processor: the way P2P is known to hang on."""
    chosen, ways = find_chosen_cards(here), here.found(CardTopology)
    if chosen is None or len(chosen.cards) < 2 or (ways is not None and ways.linked(chosen.indices)):
        return False
    bent, iommu = here.found(AccessControl), here.found(Iommu)
    return bool(bent is not None and bent.bridges) or (iommu is not None and iommu.state == "translated")


def has_no_p2p(here: NodeInspection) -> bool:
    """Whether no two of the job's cards can exchange anything directly, so that switching P2P off costs nothing."""
    cards, chosen, peers = here.found(Cards), find_chosen_cards(here), here.found(PeerAccess)
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return False
    if offers_unsupported_p2p(cards, chosen):
        return True
    count = len(chosen.cards)
    return peers is not None and len(barred_pairs(peers, chosen)) == count * (count - 1) // 2


# -- cards that the command itself names by number


def named_cards(
    launch: Launch, configuration: Configuration, choice: DeviceSelection, node: str, present: Sequence[int]
) -> DeviceSelection:
    """``choice`` of the environment as the launcher changes it; ``present``: the numbers of this node's cards.

    Slurm binds each task to the next card of its list, accelerate sets CUDA_VISIBLE_DEVICES, and DeepSpeed ignores it
    where an option of its own says which cards, or how many.
    """
    named = _of_slurm(launch.options.get("gpu_bind", ""))
    if not named and launch.launcher == "accelerate":
        named = _of_accelerate(launch, configuration)
    elif not named and launch.launcher == "deepspeed":
        named = _of_deepspeed(launch.options, node, present)
        if not named and {"num_gpus", "num_nodes"} & launch.options.keys():
            return replace(choice, words=None, option="--include localhost:{cards}")
    return replace(choice, words=named[0], option=named[1]) if named else choice


def _of_accelerate(launch: Launch, configuration: Configuration) -> _Named | None:
    """``--gpu_ids 1,2``, else ``gpu_ids: 1,2`` of its file; ``all`` names none."""
    text, option = launch.options.get("gpu_ids", ""), "--gpu_ids {cards}"
    if not text:
        told = (
            (str(ids), one.path) for one in configuration.of("accelerate") if (ids := one.get("gpu_ids")) is not None
        )
        text, path = next(told, ("", ""))
        option = f"gpu_ids: {{cards}} ({path})"
    text = text.replace(" ", "")
    return (tuple(text.split(",")), option) if _NUMBERS.fullmatch(text) else None


def _of_deepspeed(options: Mapping[str, str], node: str, present: Sequence[int]) -> _Named | None:
    """``--include host:0,1@host2:0,1``, or all but those of ``--exclude``."""
    host, kept = _slots(options.get("include", ""), node)
    if kept:
        return kept, f"--include {host}:{{cards}}"
    host, left_out = _slots(options.get("exclude", ""), node)
    left = tuple(str(index) for index in present if str(index) not in left_out)
    return (left, f"--include {host}:{{cards}}") if left_out and left else None


def _slots(text: str, node: str) -> tuple[str, tuple[str, ...]]:
    """The host that is this node, or the only one, and its numbers; none where all of its cards are meant."""
    hosts = {host: slots for host, _, slots in (part.strip().partition(":") for part in text.split("@"))}
    only = next(iter(hosts)) if len(hosts) == 1 else ""
    host = next((name for name in ("localhost", "127.0.0.1", node) if name in hosts), only)
    return host, tuple(hosts[host].split(",")) if host and _NUMBERS.fullmatch(hosts[host]) else ()


def _of_slurm(text: str) -> _Named | None:
    """The cards of ``map_gpu:0,1*2`` or ``mask_gpu:0x3,0xc``, each once."""
    kind, _, listed = text.rpartition(":")
    each = [one.partition("*")[0] for one in listed.split(",")]
    if kind.endswith("mask_gpu"):
        masks = [int(one, 16) for one in each if _MASK.fullmatch(one)]
        each = [str(bit) for mask in masks for bit in range(mask.bit_length()) if mask >> bit & 1]
    elif not kind.endswith("map_gpu"):
        return None
    plain = bool(each) and all(one.isdecimal() for one in each)
    return (tuple(dict.fromkeys(each)), "--gpu-bind=map_gpu:{cards}") if plain else None


def parts_to_choose(chosen: ChosenCards, cards: Sequence[Card]) -> dict[str, Any]:
    """Parts of a remedy that takes ``cards``: the variable that chooses them, or how the command names them."""
    if not chosen.option:
        return {"set": variable_for(cards)}
    listed = ",".join(str(card.index) for card in cards)
    return {"change": Text("{option}", {"option": chosen.option.replace("{cards}", listed)})}
