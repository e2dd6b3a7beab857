"""How an answer is printed, whatever it is: in colour or not, as a block for a chat, to a file of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.cli.output.notes import note
from unhang.errors import UsageError
from unhang.report.layout.terminal import CleanStream, underlying_stream

if TYPE_CHECKING:
    from unhang.findings import Verdict
    from unhang.report.layout.text_layout import TextLayout
    from unhang.report.localizer import Localizer
    from unhang.report.patch import PatchSources

PATCH_ENDINGS = (".patch", ".diff")


class ColorStream(CleanStream):
    """Standard output that says it is a terminal: colours into a pipe."""

    def isatty(self) -> bool:
        """Always: the user asked for colour."""
        return True


def use_color(when: str) -> None:
    """``never``; ``always``, also into a pipe; ``auto``: as terminal and ``NO_COLOR`` have it."""
    if when == "never":
        os.environ["NO_COLOR"] = "1"
    elif when == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"  # rich asks for it
        sys.stdout = ColorStream(underlying_stream(sys.stdout))


def as_block(text: str) -> str:
    """``text`` for a chat, which shows it as it is."""
    return f"````text\n{text}````\n"


def give_layout(layout: TextLayout, form: str) -> None:
    """Print ``layout``, as text or for a chat."""
    if form == "markdown":
        sys.stdout.write(as_block(layout.plain()))
    else:
        layout.print_to(sys.stdout)


def write_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, readable by its owner only. Raises UsageError when that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write(text)
    except OSError as error:
        raise write_error(path, error) from error


def give_patch(verdict: Verdict, sources: PatchSources, target: str, localizer: Localizer) -> bool:
    """Print the patch, or write it to the file ``target``; whether it was printed, and is the answer.

    Raises:
        UsageError: ``target`` is a file that may be no patch, or cannot be written.
    """
    from unhang.report.patch import make_patch

    path = Path(target)
    if target and path.suffix not in PATCH_ENDINGS and path.exists():
        raise UsageError(f"{target} exists and may be no patch", next_step="name a file that ends in .patch")
    patch = make_patch(verdict.findings, sources, localizer)
    if not target:
        underlying_stream(sys.stdout).write(patch.text)  # it was found printable, and keeps the line ends of its files
    elif patch.edits:
        write_private(path, patch.text)
        note(f"patch written to {path} (edits: {patch.edits}); to apply it: git apply {path}", lead="")
    else:
        print(patch.text, end="", file=sys.stderr)
    return not target


def write_error(path: Path, error: OSError) -> UsageError:
    """Why ``path`` holds no answer."""
    return UsageError(f"{path} cannot be written ({error.strerror or type(error).__name__})")
