"""The one place where guards print: what they say holds names and values of the user's program and of other ranks."""

from __future__ import annotations

import sys
from contextlib import suppress

from unhang.report.printable import printable
from unhang.secrets import without_secrets


def print_message(text: str) -> None:
    """``text`` on standard error, without what acts on a terminal and without secrets; a closed stream stops nobody."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"[unhang] {printable(without_secrets(text))}\n")
        sys.stderr.flush()
