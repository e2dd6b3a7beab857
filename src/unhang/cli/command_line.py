"""The parser of the command line; verbs are loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Annotated

import typer

from unhang import __version__

MORE = "More"
"""Help panel of the verbs a newcomer does not need."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: the function of its name in the module of its name, loaded when it is asked for."""

    name: str
    panel: str | None = None
    settings: Mapping[str, bool] = field(default_factory=dict)
    group: bool = False
    """It has verbs of its own: the module's ``app``."""
    beside: bool = False
    """A package beside this one has it, and says so by an entry point of the group ``unhang.verbs``."""
    of_lab: str | None = None
    """The lab has it, in the same version or not at all; this is its help where it is not installed."""

    def add_to(self, app: typer.Typer) -> None:
        """Load the verb and make it known to ``app``; one of the lab says how to install that where it is missing."""
        module = self._module()
        if module is None:
            self._add_missing(app)
        elif self.group:
            app.add_typer(module.app, name=self.name, rich_help_panel=self.panel)
        else:
            command = getattr(module, self.name)
            app.command(name=self.name, rich_help_panel=self.panel, context_settings=dict(self.settings))(command)

    def _module(self) -> ModuleType | None:
        if not self.beside and not self.of_lab:
            return import_module(f"unhang.cli.{self.name}")
        for point in entry_points(group="unhang.verbs", name=self.name):
            if self.beside or (point.dist and point.dist.version == __version__):
                return import_module(point.value)
        return None

    def _add_missing(self, app: typer.Typer) -> None:
        if not self.of_lab:
            return

        @app.command(
            name=self.name,
            help=self.of_lab,
            rich_help_panel=self.panel,
            context_settings=_ANY_WORDS,
            add_help_option=False,
        )
        def missing() -> None:
            from unhang.cli.missing_lab import missing_lab

            raise missing_lab(self.name)


_ANY_WORDS = {"ignore_unknown_options": True, "allow_extra_args": True}
_WRAPS_COMMAND = {"allow_interspersed_args": False}
"""What follows the first word belongs to the command that is started."""
VERBS = (
    Verb("check"),
    Verb("run", settings=_WRAPS_COMMAND),
    Verb("attach"),
    Verb("diagnose"),
    Verb("explain", settings={"ignore_unknown_options": True}),  # -9 is an exit code
    Verb(
        "demo", of_lab="Run a 4-rank training job that stalls (its split has no seed), say why, write an HTML report."
    ),
    Verb("view", MORE),
    Verb("history", MORE),
    Verb("compare", MORE, beside=True),
    Verb("bisect", MORE),
    Verb("ramp", MORE, _WRAPS_COMMAND, beside=True),
    Verb("reshard", MORE, beside=True),
    Verb("lab", MORE, group=True, of_lab="Real jobs with a known fault: run one, record it, read the verdict."),
)


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """The parser of the command line: with the verb that ``words`` start with, or with all of them."""
    app = typer.Typer(
        name="unhang",
        help="Say why a multi-GPU training job stopped: which rank, which line, which cause, and what to change.",
        epilog="Without a verb, unhang looks around and prints the one command to type next. Exit code of a verdict: 0 "
        "proven well, 1 something stops or slows the job, 2 bad usage or nothing to read, 3 undecided.",
        no_args_is_help=False,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_start)
    for verb in [verb for verb in VERBS if verb.name in words[:1]] or VERBS:
        verb.add_to(app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(f"unhang {__version__}")
        raise typer.Exit


def _start(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - acted on by its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from unhang.cli.explore import explore

        explore()
