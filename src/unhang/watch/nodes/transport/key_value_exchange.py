"""What two transports share: values under keys, that every watcher of a start can set and read.

Keys: ``h/N`` who node N is, ``d/N`` its last digest, ``w/N`` what it says as (possible) leader, ``v/N`` the last
verdict it gave, ``e/NUMBER/N/PART`` its evidence for sample NUMBER. One writer a key, so nothing is ever merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unhang.errors import UnhangError

MAX_BYTES = 1 << 20
"""Of one value; what is larger is put in parts."""


class ExchangeError(UnhangError):
    """The place cannot be reached, or did not take or give a value within the limit."""


class KeyValueExchange(Protocol):
    """A place where watchers meet. Calls end within the limit the place was opened with; where a network or a file
    system lets one hang all the same, the watcher ends the process that made it.

    Raises (every call):
        ExchangeError: see there.
    """

    def take_seat(self, number: int | None, name: str) -> int:
        """This node's number: ``number`` where it is known, else the next free one. ``name`` gets the same again."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Set ``value`` (at most :data:`MAX_BYTES`)."""
        ...

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Values by key; keys without one are left out."""
        ...

    def seats(self) -> int:
        """How many seats were taken or known so far: nodes have numbers below it."""
        ...

    def moved(self) -> bool:
        """Whether others who come now meet elsewhere: this place was taken away and made anew."""
        ...

    def leave(self) -> None:
        """The command of this node is over: what nobody needs any more is taken away, as far as it is ours."""
        ...

    def close(self) -> None:
        """Let go of the place for now; what was set stays."""
        ...
