"""All that we print to a terminal passes here: no control character of somebody else's text reaches it.

``clean_streams`` is what everything printed goes through. Colours and a screen that moves are rich's, and made of text
that was cleaned before (``console.Console``): they go past it. What a job prints never comes here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from unhang.report.printable import printable


class Clean:
    """A text stream that is handed only what is printable; else as the stream behind it."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream
        """The name under which rich looks for the stream behind a stream."""

    def write(self, text: str) -> int:
        """Write ``text`` without what would act on a terminal."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def behind(stream: IO[str]) -> IO[str]:
    """The stream to write to what is clean already and coloured by us."""
    return stream.rich_proxied_file if isinstance(stream, Clean) else stream


@contextmanager
def clean_streams() -> Iterator[None]:
    """Standard output and error, as long as we speak."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Clean(behind(sys.stdout)), Clean(behind(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
