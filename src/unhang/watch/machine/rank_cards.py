"""On which card a rank sits, where the driver does not tell: what its environment lets it see, and its LOCAL_RANK.

Of the environment only two names are read. CUDA: ``CUDA_VISIBLE_DEVICES`` ends at its first word that names nothing
(``-1``), a card that stands twice hides all, a UUID may be cut short while it stays the only one, and of several slices
(MIG) a process sees the first. ROCm has names of its own; nvidia-smi knows none of its cards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.check.devices.chosen_cards import visible_cards
from unhang.check.devices.devices import Card, Cards, DeviceSelection

_NAMES = (b"CUDA_VISIBLE_DEVICES", b"CUDA_DEVICE_ORDER")
MAX_BYTES = 4 << 20
SliceOwner = Callable[[str], str | None]
"""UUID of a slice in, UUID of its card out."""


def device_choice(environment: Path) -> DeviceSelection | None:
    """What ``/proc/PID/environ`` says of cards; None where it may not be read."""
    with suppress(OSError), environment.open("rb") as file:
        parts = (part.partition(b"=") for part in file.read(MAX_BYTES).split(b"\0"))
        told = {name: value.decode("utf-8", "replace") for name, _, value in parts if name in _NAMES}
        words = told.get(_NAMES[0])
        of_words = None if words is None else tuple(word.strip() for word in words.split(","))
        return DeviceSelection(of_words, told.get(_NAMES[1], "FASTEST_FIRST"))
    return None


def card_of_rank(
    cards: Sequence[Mapping[str, Any]], choice: DeviceSelection | None, local_rank: int, owner_of_slice: SliceOwner
) -> str | None:
    """UUID of the card; None where it cannot be known.

    Args:
        cards: of the sample.
        choice: what the rank's process was started with.
        local_rank: negative where it is unknown.
        owner_of_slice: asked only for a slice that does not name its card.
    """
    if choice is None:
        return None
    words = choice.words or ()
    if words and words[0].startswith("MIG-"):
        return _of_slice(words[0], owner_of_slice) if len(words) == 1 or local_rank == 0 else None
    there = Cards(tuple(Card(one["index"], one["name"], one["uuid"], one["bus"]) for one in cards))
    counted = choice.words is None or any(not word.startswith("GPU-") for word in words)
    if counted and choice.order != "PCI_BUS_ID" and len({card.name for card in there.cards}) > 1:
        return None  # CUDA counts the fastest first, nvidia-smi in the order of the bus
    chosen = visible_cards(there, choice)
    if chosen.mig:
        return None
    if len(chosen.visible) == 1:
        return chosen.visible[0].uuid
    return chosen.visible[local_rank].uuid if 0 <= local_rank < len(chosen.visible) else None


def _of_slice(word: str, owner_of_slice: SliceOwner) -> str | None:
    """Until driver 470 a slice was called by its card: ``MIG-GPU-<uuid>/1/0``."""
    if word.startswith("MIG-GPU-"):
        return word.removeprefix("MIG-").partition("/")[0]
    return owner_of_slice(word)
