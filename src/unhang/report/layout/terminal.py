"""All that we print to a terminal passes here: no control character of somebody else's text reaches it.

``clean_streams`` is what everything printed goes through. What goes to standard error loses its secrets there; what
goes to standard output lost them before, value by value. Colours and a screen that moves are rich's, and made of text
that was cleaned before (``console.Console``): they go past it. What a job prints never comes here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from unhang.report.printable import printable


class CleanStream:
    """A text stream that is handed only what is printable; else as the stream behind it."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream
        """The name under which rich looks for the stream behind a stream."""

    def write(self, text: str) -> int:
        """Write ``text`` without what would act on a terminal."""
        self.rich_proxied_file.write(self._shown(text))
        return len(text)

    def _shown(self, text: str) -> str:
        return printable(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


class CleanErrorStream(CleanStream):
    """Standard error: what is said there is made of somebody's words, files and commands."""

    def _shown(self, text: str) -> str:
        from unhang.secrets import without_secrets  # most runs have nothing to complain about

        return printable(without_secrets(text))


def underlying_stream(stream: IO[str]) -> IO[str]:
    """The stream to write to what is clean already and coloured by us."""
    return stream.rich_proxied_file if isinstance(stream, CleanStream) else stream


@contextmanager
def clean_streams() -> Iterator[None]:
    """Standard output and error, as long as we speak."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = CleanStream(underlying_stream(sys.stdout)), CleanErrorStream(underlying_stream(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
