"""Options that several verbs have: they mean the same, and are said the same, everywhere."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

Language = Annotated[str | None, typer.Option("--lang", metavar="LANG", help="en or zh; default: the locale's.")]
Redact = Annotated[bool, typer.Option("--redact", help="Rename users, hosts, addresses and paths for sharing.")]
Color = Annotated[bool | None, typer.Option("--color/--no-color", help="Colour; default: when on a terminal.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show traces of errors, and of a verdict which rule decided it.")]


class Format(str, enum.Enum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


class ChatFormat(str, enum.Enum):
    """The same of an answer that is made for a chat as well."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
