"""The entry point: verbs, and the one place where errors become a sentence and an exit code.

Exit codes: 0 proven well, 1 a finding that stops or slows (or a stall of unknown cause), 2 bad usage or nothing
readable, 3 undecided, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module

from unhang.cli import settings
from unhang.cli.output.notes import ASKED, in_language, note
from unhang.errors import UnhangError, UsageError
from unhang.report.layout.terminal import clean_streams

PARSERLESS_VERBS = {"diagnose": "diagnosing", "explain": "explaining"}
"""Modules that do the work of a verb for words that need no parser: loading one takes longer than that."""
_KEEPING_VERBS = ("diagnose", "explain", "check")
_OF_NO_VERB = ("-h", "--help", "-V", "--version", "--install-completion", "--show-completion")
_VERBS_WITH_PATHS = ("diagnose", "compare", "view", "history", "explain")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the verb that was asked for and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # a terminal that cannot show a character shows a mark instead of ending the verdict
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with clean_streams():
        code = _run(words)
    sys.exit(code)


def _reopen_closed_streams() -> None:
    """A stream that was closed before we began (``>&-``): nothing of ours may get its number, and printing is nothing.

    What we start does not inherit the number: its stream is closed as without us.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # the lowest that is free
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", closefd=False))


def _run(words: list[str]) -> int:
    try:
        words = _as_meant(words)
        ASKED.set(partial(settings.language_of, words))
        if words and words[0] in _KEEPING_VERBS:
            _reduce_garbage_collection()
        _refuse_empty(words)
        code = _without_parser(words)
        result = _parsed(words) if code is None else code
        sys.stdout.flush()
    except UnhangError as error:
        return _report_error(error)
    except BrokenPipeError:
        return _close_broken_pipe()
    except KeyboardInterrupt:
        note("Stopped.", lead="")
        return 130
    except MemoryError:
        note("not enough memory to read this; pass fewer files at a time")
        return 2
    except Exception as error:  # noqa: BLE001 - the process edge: everything else is our own mistake
        return _report_bug(error, debug="--debug" in words)
    return result if isinstance(result, int) else 0


@cache
def _reduce_garbage_collection() -> None:
    """Raise the garbage collector's thresholds: these verbs keep what they read until they end. Collecting costs a
    tenth of the time of a large log, and of a short one as much as reasoning about it, half of that when the
    interpreter ends."""
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)


def _as_meant(words: list[str]) -> list[str]:
    """``unhang job.log``, and something piped into ``unhang``, ask for a diagnosis."""
    rest = words[2:] if words[:1] == ["--lang"] else words["".join(words[:1]).startswith("--lang=") :]
    if "_UNHANG_COMPLETE" in os.environ or (rest and rest[0] in _OF_NO_VERB):  # a shell asks how a word goes on
        return words
    if not rest:
        from unhang.cli.diagnosing import standard_input_has_text

        return ["diagnose", *words, "-"] if standard_input_has_text() else words
    first = rest[0]
    named = first.startswith("-") or any(sign in first for sign in "/.*?[")
    return ["diagnose", *words] if named or (os.path.exists(first) and not _is_verb(first)) else words  # noqa: PTH110 - no name is too long for it


def _is_verb(word: str) -> bool:
    from unhang.cli.command_line import VERBS

    return word in (verb.name for verb in VERBS)


def _without_parser(words: list[str]) -> int | None:
    """The exit code of a verb with simple words; None where the words need the parser."""
    if len(words) < 2 or words[0] not in PARSERLESS_VERBS or settings.are_there():
        return None
    code: int | None = import_module(f"unhang.cli.{PARSERLESS_VERBS[words[0]]}").run_without_parser(words[1:])
    return code


def _parsed(words: list[str]) -> object:
    import typer

    from unhang.cli.command_line import command_line

    try:
        return command_line(words)(args=words, prog_name="unhang", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error


def _refuse_empty(words: list[str]) -> None:
    """An empty word where evidence is named is a shell variable that is not set, and would mean this folder.

    Raises:
        UsageError: there is one.
    """
    if words and words[0] in _VERBS_WITH_PATHS and not all(word.strip() for word in words):
        raise UsageError(
            f"unhang {words[0]} got an empty argument", next_step="check that the shell variable in it is set"
        )


def _report_error(error: UnhangError) -> int:
    settings.are_there()  # a file may name the language
    note(str(error))
    if error.next_step:
        note(error.next_step, lead=f"  {in_language('next: ')}")
    return 2


def _report_bug(error: Exception, *, debug: bool) -> int:
    show = getattr(error, "show", None)
    if callable(show):  # a usage error of the argument parser, which knows how to show itself
        shown = io.StringIO()
        show(file=shown)
        for line in shown.getvalue().splitlines():
            note(line, lead="")
        return 2
    if debug:
        import traceback  # loads a reader of source files

        traceback.print_exception(error)
    failed = f"internal error ({type(error).__name__}: {error})"
    return _report_error(UnhangError(failed, next_step="run it again with --debug and report the output"))


def _close_broken_pipe() -> int:
    """The program reading our output ended (``| head``): leave as quietly as ``cat`` would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
