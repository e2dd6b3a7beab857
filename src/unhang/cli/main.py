"""The entry point: verbs, and the one place where errors become a sentence and an exit code.

Exit codes: 0 nothing wrong, 1 a finding that stops or slows (or a stall of unknown cause), 2 nothing readable or bad
usage, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from unhang.errors import UnhangError

WORKS = {"diagnose": "diagnosing", "explain": "explaining"}
"""Modules that do the work of a verb for words among which no option is: loading a parser takes longer than that."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the verb that was asked for and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # a terminal that cannot show a character shows a mark instead of ending the verdict
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    try:
        result = _without_options(words) if _plain(words) else _parsed(words)
        sys.stdout.flush()
    except UnhangError as error:
        return _say_error(error, debug="--debug" in words)
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except MemoryError:
        print("unhang: not enough memory to read this; name fewer files at a time", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the process edge: everything else is our own mistake
        return _say_mistake(error, debug="--debug" in words)
    return result if isinstance(result, int) else 0


def _plain(words: list[str]) -> bool:
    """Whether there is nothing to parse: a verb, and words that are no options."""
    options = any(word.startswith("-") and word != "-" for word in words)
    return len(words) > 1 and words[0] in WORKS and not options


def _without_options(words: list[str]) -> int:
    code: int = import_module(f"unhang.cli.{WORKS[words[0]]}").without_options(words[1:])
    return code


def _parsed(words: list[str]) -> object:
    import typer

    from unhang.cli.command_line import command_line

    try:
        return command_line(words)(args=words, prog_name="unhang", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error


def _say_error(error: UnhangError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"unhang: {error}", file=sys.stderr)
    if error.next_step:
        print(f"  next: {error.next_step}", file=sys.stderr)
    return 2


def _say_mistake(error: Exception, *, debug: bool) -> int:
    show = getattr(error, "show", None)
    if callable(show):  # a usage error of the argument parser, which knows how to show itself
        cast("Any", show)(file=sys.stderr)
        return 2
    if debug:
        traceback.print_exception(error)
    print(f"unhang: a mistake of unhang's own ({type(error).__name__}: {error})", file=sys.stderr)
    print("  next: run it again with --debug and report what it prints", file=sys.stderr)
    return 2


def _reader_left() -> int:
    """The program reading our output ended (``| head``): leave as quietly as ``cat`` would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
