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
from importlib.util import find_spec
from typing import Annotated, Any, cast

import typer

from unhang import __version__
from unhang.cli.attach import attach
from unhang.cli.bisect import bisect
from unhang.cli.check import check
from unhang.cli.compare import compare
from unhang.cli.diagnose import diagnose
from unhang.cli.explain import explain
from unhang.cli.history import history
from unhang.cli.ramp import ramp
from unhang.cli.reshard import reshard
from unhang.cli.run import run
from unhang.cli.view import view
from unhang.errors import UnhangError
from unhang.report.terminal import clean_streams

MORE = "More"
"""Help panel of the verbs a newcomer does not need."""

app = typer.Typer(
    name="unhang",
    help="Say why a multi-GPU training job stopped: which rank, which line, which cause, and what to change.",
    epilog="Without a verb, unhang looks around and prints the one command to type next.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"unhang {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - acted on by its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from unhang.cli.explore import explore

        explore()


app.command(name="check")(check)
app.command(name="run", context_settings={"allow_interspersed_args": False})(run)
app.command(name="attach")(attach)
app.command(name="diagnose")(diagnose)
app.command(name="explain", context_settings={"ignore_unknown_options": True})(explain)  # -9 is an exit code
if find_spec("unhang.cli.demo") is not None:
    from unhang.cli.demo import demo

    app.command(name="demo")(demo)
app.command(name="view", rich_help_panel=MORE)(view)
app.command(name="history", rich_help_panel=MORE)(history)
app.command(name="compare", rich_help_panel=MORE)(compare)
app.command(name="bisect", rich_help_panel=MORE)(bisect)
app.command(name="ramp", rich_help_panel=MORE, context_settings={"allow_interspersed_args": False})(ramp)
app.command(name="reshard", rich_help_panel=MORE)(reshard)
if find_spec("unhang.cli.lab") is not None:
    from unhang.cli.lab import app as lab_app

    app.add_typer(lab_app, name="lab", rich_help_panel=MORE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the verb that was asked for and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _stand_in_for_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # a terminal that cannot show a character shows a mark instead of ending the verdict
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with clean_streams():
        code = _run(words)
    sys.exit(code)


def _stand_in_for_closed_streams() -> None:
    """A stream that was closed before we began (``>&-``): nothing of ours may get its number, and printing is nothing.

    What we start does not inherit the number: its stream is closed as without us.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # the lowest that is free
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", closefd=False))


def _run(words: list[str]) -> int:
    if "--debug" in words:
        _show_failures()
    try:
        result = app(args=words, prog_name="unhang", standalone_mode=False)
        sys.stdout.flush()
    except UnhangError as error:
        return _say_error(error, debug="--debug" in words)
    except BrokenPipeError:
        return _reader_left()
    except (KeyboardInterrupt, typer.Abort):
        print("Stopped.", file=sys.stderr)
        return 130
    except MemoryError:
        print("unhang: not enough memory to read this; name fewer files at a time", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the process edge: everything else is our own mistake
        return _say_mistake(error, debug="--debug" in words)
    return result if isinstance(result, int) else 0


def _show_failures() -> None:
    """Let the traceback of a part that failed, while the rest went on, be seen."""
    import logging

    logging.basicConfig(format="%(message)s")
    logging.getLogger("unhang").setLevel(logging.DEBUG)


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
