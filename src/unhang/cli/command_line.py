"""The parser of the command line; verbs are loaded when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, entry_points, version
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from unhang import __version__
from unhang.cli import settings
from unhang.cli.options import Language, current_name, with_common_options
from unhang.cli.output.answer import PATCH_ENDINGS
from unhang.errors import MissingExtra

if TYPE_CHECKING:
    from typer._click.core import Command as _Command  # both classes of the parser are one
else:
    _Command = object

_LAB_FOLDER = "packages/unhang-lab"
_LAB_RELEASE = f"unhang-lab=={__version__}"
MORE = "More"
"""Help panel of the verbs a newcomer does not need."""
_LANGUAGE, _CATALOGUE = "unhang.language", "unhang.catalogue"
"""What a context notes: the language on the command line, and the sentences of the language that help is shown in."""
WORDS_OF_HELP = {
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "DEFAULT_STRING": "[default: {}]",
    "REQUIRED_LONG_STRING": "[required]",
}
"""The parser's own words, by their name in ``typer.rich_utils``."""


class _Conventions(_Command):
    """What a command line of ours does that the parser does not by itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Without the type of what its name explains: help says ``--redact``, and not ``--redact <bool>``."""
        found: list[Any] = super().get_params(ctx)
        for param in found:
            if param.param_type_name == "argument" or param.is_flag:
                param.display_type_rich = _no_type
            param.help = _said(ctx, param.help)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Help has the language that is asked for before or behind ``--help``."""
        if {"-h", "--help"}.intersection(args):
            asked = self.make_parser(ctx).parse_args(list(args))[0].get("lang")
            ctx.meta[_LANGUAGE] = asked or ctx.meta.get(_LANGUAGE)
        words: list[str] = super().parse_args(ctx, args)
        return words

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """In the language of help."""
        words = " ".join(self.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, words, prefix=_said(ctx, "Usage: "))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``unhang compare [OPTIONS] A [B]``: arguments as they are called."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        names = [param.metavar for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [pieces[0], *names] if names and all(names) else pieces

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """In the user's language, with examples at the end."""
        _translate_help(self, ctx)
        super().format_help(ctx, formatter)
        examples = [f"  {line.strip()}\n" for line in _parts(self.callback)[1] if line.strip()]
        formatter.write("".join([_said(ctx, "Examples:"), "\n", *examples] if examples else []))

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """With the defaults that files and variables set; a wrong one says where it stands."""
        verb = " ".join(filter(None, (parent and parent.command_path, info_name))).partition(" ")[2].replace(" ", "-")
        names = {name.lstrip("-"): param for param in self.params for name in param.opts if name.startswith("--")}
        known = {} if extra.get("resilient_parsing") else settings.defaults_of(verb, names)
        extra["default_map"] = {names[option].name: _value(names[option], one.value) for option, one in known.items()}
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.BadParameter as error:
            origin = next((one.origin for option, one in known.items() if names[option] is error.param), None)
            error.message += f" (it is set by {origin})" if origin else ""
            raise


def _translate_help(command: Any, ctx: Any) -> None:
    """Say all that the help of ``command`` holds in the language asked for, that of a default, or the locale's."""
    import rich._wrap
    from typer import rich_utils

    from unhang.report.language import catalogue, resolve_language
    from unhang.report.layout.text_layout import UNIT

    asked = ctx.meta.get(_LANGUAGE) or ctx.lookup_default("lang") or ctx.find_root().lookup_default("lang")
    lang = resolve_language(asked)
    ctx.meta[_CATALOGUE] = {} if lang == "en" else catalogue(lang)
    for one in (command, *getattr(command, "commands", {}).values()):
        one.help, one.epilog = _said(ctx, one.help), _said(ctx, one.epilog)
        one.rich_help_panel = _said(ctx, one.rich_help_panel)

    class Folded(rich_utils.OptionHighlighter):
        def highlight(self, text: Any) -> None:
            super().highlight(text)
            text.overflow = "fold"

    # rich breaks lines at blanks only, and cuts off what is too long then: in Chinese, the end of a sentence
    rich._wrap.re_word, rich_utils.highlighter = UNIT, Folded()  # noqa: SLF001
    for name, english in WORDS_OF_HELP.items():
        setattr(rich_utils, name, _said(ctx, english))


def _said(ctx: Any, text: Any) -> Any:
    """``text``, if it is one, in the language that help is shown in, paragraph by paragraph."""
    known = ctx.meta.get(_CATALOGUE, {})
    return "\n\n".join(known.get(part, part) for part in text.split("\n\n")) if isinstance(text, str) else text


def _no_type(ctx: object) -> str:  # noqa: ARG001
    return ""


def _value(param: Any, value: Any) -> Any:
    """``value`` as the parser takes it from the command line."""
    if param.multiple:
        return value.split() if isinstance(value, str) else [str(one) for one in value]
    return value if isinstance(value, bool) else str(value)


class VerbCommand(_Conventions, TyperCommand):
    """A verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--color`` alone and ``--no-color``, as they were called, are understood; ``--patch`` needs no file."""
        if "color" in {param.name for param in self.params}:
            args = list(_with_values_named(args))
        return super().parse_args(ctx, args)


def _with_values_named(words: Sequence[str]) -> Iterator[str]:
    """The word behind ``--patch`` is its file only where it is called a patch: else it may be a log."""
    for number, word in enumerate(words):
        if word == "--":
            yield from words[number:]
            return
        after = "".join(words[number + 1 : number + 2])
        if word == "--patch" and not after.endswith(PATCH_ENDINGS):
            yield "--patch="
        else:
            bare = word == "--color" and after not in ("auto", "always", "never")
            yield "--color=always" if bare else {"--no-color": "--color=never"}.get(word, word)


class VerbGroup(_Conventions, TyperGroup):
    """All verbs, or those of one."""


def _parts(verb: Callable[..., Any] | None) -> tuple[str, list[str]]:
    """The text of ``verb``'s docstring, a line for each paragraph, and the examples below it."""
    text, _, examples = (verb.__doc__ or "").partition("Examples:\n")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")), examples.split("\n")


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
    without: Collection[str] = ()
    """Options of every verb that make no sense here."""
    of_lab: str | None = None
    """The lab has it, in the same version or not at all; this is its help where it is not installed."""

    def add_to(self, app: typer.Typer) -> None:
        """Load the verb and make it known to ``app``; one of the lab says how to install that where it is missing."""
        module = self._module()
        if module is None:
            self._add_missing(app)
        elif self.group:
            whole = module.app.info.callback
            group = typer.Typer(cls=VerbGroup, callback=whole, help=_parts(whole)[0], no_args_is_help=True)
            for one in module.app.registered_commands:
                self._add(group, one.name or one.callback.__name__, one.callback)
            app.add_typer(group, name=self.name, rich_help_panel=self.panel)
        else:
            self._add(app, self.name, getattr(module, self.name))

    def _add(self, app: typer.Typer, name: str, verb: Callable[..., Any]) -> None:
        wrapped, context = with_common_options(verb, self.without), dict(self.settings)
        panel = None if self.group else self.panel
        text, _ = _parts(verb)
        app.command(name, cls=VerbCommand, rich_help_panel=panel, context_settings=context, help=text)(wrapped)

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
            raise _missing_lab(self.name)


_ANY_WORDS = {"ignore_unknown_options": True, "allow_extra_args": True}
_WRAPS_COMMAND = {"allow_interspersed_args": False}
"""What follows the first word belongs to the command that is started."""
VERBS = (
    Verb("check"),
    Verb("run", settings=_WRAPS_COMMAND, without=("output", "color", "quiet")),
    Verb("attach"),
    Verb("diagnose"),
    Verb("explain", settings={"ignore_unknown_options": True}),  # -9 is an exit code
    Verb("demo", of_lab="Run a 4-rank training job that stalls on purpose, diagnose it, and write an HTML report."),
    Verb("view", MORE, without=("output",)),
    Verb("history", MORE),
    Verb("compare", MORE, beside=True),
    Verb("bisect", MORE),
    Verb("ramp", MORE, _WRAPS_COMMAND, beside=True, without=("color",)),
    Verb("reshard", MORE, beside=True),
    Verb("lab", MORE, group=True, of_lab="Run real jobs with a known fault and check the verdict."),
)


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """The parser of the command line: with the verb that ``words`` start with, or with all of them."""
    app = typer.Typer(
        name="unhang",
        cls=VerbGroup,
        help="Find out why a multi-GPU training job stopped: which rank, which line, why, and what to change.",
        epilog="Without a command, unhang diagnoses what is piped in; without a pipe, it suggests the next command.\n\n"
        "Exit codes: 0 healthy, 1 something stops or slows the job, 2 bad usage or nothing to read, 3 undecided.",
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": current_name},
    )
    app.callback(invoke_without_command=True)(_start)
    for verb in [verb for verb in VERBS if verb.name in words[:1]] or VERBS:
        verb.add_to(app)
    return app


def _missing_lab(verb: str) -> MissingExtra:
    """Why ``unhang VERB`` cannot begin, and what to type, in one line.

    pip notes where it took unhang from (PEP 610): from there the lab of the same version comes too.
    """
    import shlex

    found = _installed()
    why = "which is not installed" if found is None else f"and not version {found}, which is installed"
    return MissingExtra(
        f"{verb} needs the lab of version {__version__}, {why}: pip install {shlex.join(_wanted(_came_from()))}"
    )


def _installed() -> str | None:
    try:
        return version("unhang-lab")
    except PackageNotFoundError:
        return None


def _came_from() -> dict[str, Any]:
    """What pip noted of the source of unhang; empty where it came from an index, or was not installed at all."""
    import json

    try:
        noted = distribution("unhang").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(noted) if noted else {}


def _wanted(source: dict[str, Any]) -> list[str]:
    """Words for ``pip install``: from the same commit, folder of wheels or clone; else the release."""
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    address = source.get("url", "")
    if commit := source.get("vcs_info"):
        # not the extra: a wheel of this commit that pip kept names a folder that is gone
        return [f"{commit['vcs']}+{address}@{commit['commit_id']}#subdirectory={_LAB_FOLDER}"]
    if not address.startswith("file:"):
        return [_LAB_RELEASE]
    path = Path(url2pathname(urlsplit(address).path))
    if "archive_info" in source:
        return ["--find-links", str(path.parent), _LAB_RELEASE]
    editable = ["--editable"] if source.get("dir_info", {}).get("editable") else []
    return [*editable, f"{path}[lab]"] if (path / _LAB_FOLDER).is_dir() else [_LAB_RELEASE]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"unhang {__version__}")
        raise typer.Exit


def _start(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - acted on by its callback
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    lang: Language = None,
) -> None:
    """Look around.

    Examples:
    unhang job.log
    kubectl logs job/train | unhang
    unhang run torchrun --nproc-per-node 8 train.py
    unhang attach
    """
    if context.invoked_subcommand is None:
        from unhang.cli.explore import explore

        explore(lang)
    elif lang and str(context.get_parameter_source("lang")).endswith("COMMANDLINE"):  # a default is the verb's own
        os.environ["UNHANG_LANG"] = lang
