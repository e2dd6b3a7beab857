"""Options that several verbs have: they mean the same, and are said the same, everywhere.

Those of ``with_common_options`` belong to every verb without its doing anything for them.
"""

from __future__ import annotations

import enum
import functools
import inspect
import io
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from unhang.cli.output.answer import use_color, write_private
from unhang.cli.output.notes import note
from unhang.errors import UnhangError
from unhang.report.layout.terminal import CleanStream


class Format(str, enum.Enum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class ReportFormat(str, enum.Enum):
    """The same of a verdict on a job, which can be a page."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class When(str, enum.Enum):
    """When colours are used."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


Language = Annotated[
    str | None, typer.Option("--lang", metavar="LANG", show_default=False, help="en or zh; default: from the locale.")
]
Redact = Annotated[bool, typer.Option("--redact", help="Replace users, hosts, addresses and paths, for sharing.")]
Patch = Annotated[
    str | None, typer.Option("--patch", metavar="[FILE]", help="Print certain fixes as a diff, or write FILE.patch.")
]
_COMMON: dict[str, tuple[Any, Any]] = {
    "output": (
        Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answer to FILE.")],
        None,
    ),
    "color": (
        Annotated[When, typer.Option("--color", help="When to use color; auto: on a terminal unless NO_COLOR is set.")],
        When.AUTO,
    ),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")], False),
    "verbose": (
        Annotated[
            bool,
            typer.Option("--verbose", "-v", "--debug", help="Show which rule decided, and tracebacks of failures."),
        ],
        False,
    ),
}
_OLD_NAMES = {"out": "output", "for": "watch-for", "stall": "stall-after", "again": "overwrite"}


def current_name(name: str) -> str:
    """The option that ``name`` is called now: old names are understood and not shown."""
    return _OLD_NAMES.get(name, name)


def with_common_options(verb: Callable[..., Any], without: Collection[str] = ()) -> Callable[..., Any]:
    """``verb`` with the options that all have, but for those it has itself and ``without``."""
    own = inspect.signature(verb, eval_str=True)
    added = {name: option for name, option in _COMMON.items() if name not in own.parameters and name not in without}

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        with _as_asked(**{name: given.pop(name) for name in added}):
            verb(**given)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), *parameters])  # type: ignore[attr-defined]
    command.__annotations__ = {**verb.__annotations__, **{name: option[0] for name, option in added.items()}}
    return command


@contextmanager
def _as_asked(
    output: Path | None = None, color: When = When.AUTO, quiet: bool = False, verbose: bool = False
) -> Iterator[None]:
    with ExitStack() as stack:
        if verbose:
            stack.enter_context(_traced())
        if quiet:
            stack.enter_context(redirect_stderr(io.StringIO()))
        if output is not None:
            stack.enter_context(_answer_in(output))
        use_color(color.value)
        yield


@contextmanager
def _traced() -> Iterator[None]:
    """Show the traceback of what fails, also of a part that failed while the rest went on."""
    import logging

    logging.basicConfig(format="%(message)s")
    logging.getLogger("unhang").setLevel(logging.DEBUG)
    try:
        yield
    except UnhangError:  # main shows those of mistakes
        traceback.print_exc()
        raise


@contextmanager
def _answer_in(path: Path) -> Iterator[None]:
    """Write to ``path`` what is printed, once it is whole; a rank that leaves the answer to another one writes none."""
    text, left = io.StringIO(), None
    with redirect_stdout(CleanStream(text)):
        try:
            yield
        except typer.Exit as ending:
            left = ending
    if text.getvalue():
        write_private(path, text.getvalue())
        note(f"written to {path}", lead="")
    if left is not None:
        raise left
