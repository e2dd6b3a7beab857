"""Defaults of options: ``UNHANG_…`` before ``[tool.unhang]`` of the project before the user's own file.

A file has tables as the verbs are called, with options as they are called (``[tool.unhang.diagnose]``, ``format``);
those of ``SHARED`` also stand above the tables, and hold for every verb that has them. Whoever clones a project did not
write its file: it may say how an answer looks and how long to wait, and nothing of what is executed, sent or written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unhang.cli.output.notes import note

RESERVED = frozenset(
    f"UNHANG_{name}"
    for name in (
        *("RUN", "RUN_DIR", "DRY_RUN", "DRY_RUN_STEPS", "DRY_RUN_PEERS", "NCCL_LINES", "STORY"),  # of our own
        *("TOKEN", "NODE_NAME", "NODES_VIA", "HISTORY"),  # the user's, read where they are needed
    )
)
SHARED = frozenset({"lang", "color", "quiet", "verbose", "redact"})
OF_PROJECT = frozenset(
    {"lang", "color", "quiet", "verbose", "format", "block", "limit", "total", "wait", "steps"}
    | {"slow-after", "watch-for", "stall-after", "dry-run-limit"}
)
"""What the file of a project may set."""
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Default:
    """What an option is where the command line does not say, and who says so."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    table: Mapping[str, Any]
    of_project: bool

    def verb(self, verb: str) -> Mapping[str, Any]:
        """The options of its table for ``verb``."""
        table = self.table.get(verb)
        return table if isinstance(table, dict) else {}


def are_there() -> bool:
    """Whether anything sets a default, here or for this user."""
    return bool(_files()) or any(name.startswith("UNHANG_") and name not in RESERVED for name in os.environ)


def defaults_of(verb: str, options: Collection[str]) -> dict[str, Default]:
    """Defaults of ``verb`` (an empty string: unhang alone), by option. Says what stands in a file and is not used."""
    found: dict[str, Default] = {}
    for file in reversed(_files()):
        for place, option, value in _stated(file, verb):
            problem = _problem(file, place, option, options)
            if problem:
                _complain(f"{file.path}: {place} {problem}")
            elif option in options:
                found[option] = Default(value, str(file.path))
    for option in options:
        for scope in ("", verb) if option in SHARED else (verb,):
            name = "_".join(filter(None, ("unhang", scope, option))).upper().replace("-", "_")
            if name not in RESERVED and os.environ.get(name):
                found[option] = Default(os.environ[name], name)
    return found


def language_of(words: Sequence[str]) -> str | None:
    """What ``--lang`` is in the command line ``words``, else by default for their verb; of files once all are read."""
    verb = lang = before = ""
    for word in words:
        if word == "--" or (verb in ("run", "ramp") and word[:1] != "-" != before[:1]):
            break  # what follows belongs to the command that is started
        if before == "--lang" or word.startswith("--lang="):
            lang = word.removeprefix("--lang=")
        elif not verb and word[:1] != "-":
            verb = word
        before = word
    files = _files() if _files.cache_info().currsize else ()
    stated = (value for file in files for _, option, value in (*_stated(file, verb),)[::-1] if option == "lang")
    named = map(os.environ.get, (f"UNHANG_{verb}_LANG".upper(), "UNHANG_LANG"))
    return next((str(one) for one in (lang, *named, *stated) if one), None)


def _stated(file: _File, verb: str) -> Iterator[tuple[str, str, Any]]:
    """What ``file`` says of ``verb``: as it is called there, the option, its value."""
    for option, value in file.table.items():
        if not isinstance(value, dict):
            yield option, option, value
    for option, value in file.verb(verb).items():
        yield f"{verb}.{option}", option, value


def _problem(file: _File, place: str, option: str, options: Collection[str]) -> str:
    if place == option and option not in SHARED:
        return "belongs in the table of a verb"
    if place != option and option not in options:
        return "is not an option"
    if file.of_project and option not in OF_PROJECT:
        return "cannot be set by a project, only by you"
    return ""


@cache
def _complain(problem: str) -> None:
    note(f"{problem}; not used")


@cache
def _files() -> tuple[_File, ...]:
    """That of the project, then the user's own."""
    project, own = _project_file(), user_file()
    found = [_File(project, _table(project, "tool", "unhang"), True)] if project is not None else []
    if own is not None and _is_ours(own):
        found.append(_File(own, _table(own), False))
    return tuple(file for file in found if file.table)


def user_file() -> Path | None:
    """Where the user's own defaults lie: ``$XDG_CONFIG_HOME/unhang/config.toml``, by default below ``~/.config``."""
    home, place = os.environ.get("HOME", ""), os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(place) if place.startswith("/") else Path(home) / ".config" if home.startswith("/") else None
    return folder / "unhang" / "config.toml" if folder is not None else None


def _project_file() -> Path | None:
    """The nearest ``pyproject.toml``, from this folder up, that speaks of us."""
    try:
        here = Path.cwd()
    except OSError:  # a folder that is gone
        return None
    return next(
        (path for folder in (here, *here.parents) if b"tool.unhang" in _read(path := folder / "pyproject.toml")), None
    )


def _is_ours(path: Path) -> bool:
    """Not somebody else's, as under sudo: what it says is executed."""
    try:
        status = path.stat()
    except OSError:
        return False
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        _complain(f"{path} is writable by other users")
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def _table(path: Path, *names: str) -> Mapping[str, Any]:
    import tomli

    try:
        table: Any = tomli.loads(_read(path).decode())
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        _complain(f"{path} is not valid TOML ({error})")
        return {}
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}
