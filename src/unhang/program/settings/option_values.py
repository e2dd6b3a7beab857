"""The value a setting has in this launch: the command before configuration files before the default in the source."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unhang.program.launch.job_environment import DIFFERS_BY_RANK
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.settings.declared_options import DeclaredSetting, DeclaredSettings
from unhang.program.syntax.evaluation import UNKNOWN

_OTHERS = ("deepspeed", "accelerate")
"""Kinds of configuration files that a launcher or engine reads, and not the program."""
_LOCAL_RANK = "local_rank"
"""Launchers give it to every process, each another: ``deepspeed`` and ``torch.distributed.launch`` as an argument."""
_TRUE, _FALSE = ("true", "yes", "1", "on", "y", "t"), ("false", "no", "0", "off", "n", "f")


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """Effective ``value`` of a setting, and its source: ``command``, a configuration file, or ``file:line``."""

    name: str
    value: Any
    place: str


@dataclass(slots=True)
class OptionValues:
    """Looks settings up. ``unread``: a configuration file was named and could not be read, so defaults may not hold."""

    launch: Launch
    configuration: Configuration
    unread: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment in which the program is started."""
    _leaves: dict[str, list[tuple[str, Any, str]]] = field(default_factory=dict)
    _last_parts: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index by the last part of a name: that is what most spellings share."""
        for file in self.configuration.files:
            for dotted_name, value in _flat(file.tree) if file.kind not in _OTHERS else ():
                self._leaves.setdefault(_last(dotted_name), []).append((dotted_name, value, file.path))
        for name in self.launch.arguments:
            self._last_parts.setdefault(_last(name), set()).add(name)

    def of(self, setting: DeclaredSetting, spellings: Sequence[str]) -> EffectiveValue:
        """The value of ``setting``, which the command and files call one of ``spellings``; UNKNOWN where it may differ.

        A name that only ends alike, or is cut short, may mean this setting: then nothing is known.
        """
        name = spellings[0]
        for spelled in spellings:
            if spelled in self.launch.arguments:
                return EffectiveValue(name, _cast(self.launch.arguments[spelled], setting), "command")
            if any(negated in self.launch.arguments for negated in (f"no_{spelled}", f"no{spelled}")):
                return EffectiveValue(name, False, "command")
        ends_alike = self._last_parts.get(_last(name))
        cut_short = any(one and spelled.startswith(one) for one in self.launch.arguments for spelled in spellings)
        handed_out = _LOCAL_RANK in spellings and self.launch.launcher not in ("", "python")
        if ends_alike or cut_short or handed_out:
            return EffectiveValue(name, UNKNOWN, "command")
        told = self._leaves.get(_last(name), [])
        exact = [(value, path) for dotted_name, value, path in told if dotted_name in spellings]
        if exact:
            return EffectiveValue(name, exact[0][0] if len(exact) == 1 else UNKNOWN, exact[0][1])
        return EffectiveValue(name, UNKNOWN if told or self.unread else setting.default, setting.place)

    def variable(self, name: str) -> EffectiveValue:
        """A variable of the environment; UNKNOWN where it is not set, or ranks may have different ones."""
        followed = self.launch.followed
        if name not in self.variables or name in followed.unknown or any(part in name for part in DIFFERS_BY_RANK):
            return EffectiveValue(name, UNKNOWN, "environment")
        told = followed.environment.get(name)
        place = "environment" if told is None else told.origin if told.line is None else f"{told.origin}:{told.line}"
        return EffectiveValue(name, self.variables[name], place)

    def at(self, path: str) -> EffectiveValue | None:
        """What stands at ``path`` of the configuration files; None where nothing stands, UNKNOWN where that may differ.

        The command has been worked in by then.
        """
        told = [held for held in self._leaves.get(_last(path), []) if held[0] == path]
        if len(told) != 1 or self.unread:
            return None if not told and not self.unread else EffectiveValue(path, UNKNOWN, "")
        _, value, place = told[0]
        computed = isinstance(value, str) and ("${" in value or value == "???")
        return EffectiveValue(path, UNKNOWN if computed or isinstance(value, Mapping) else value, place)


def _flat(tree: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{before}{key}".replace("-", "_")
        yield name, value
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _cast(text: str, setting: DeclaredSetting) -> Any:
    """What the program makes of ``text``; UNKNOWN for types that only running knows."""
    if "$" in text or setting.several:
        return UNKNOWN
    if setting.flag is not None and text == "true":
        return setting.flag
    kind = setting.kind or type(setting.default).__name__
    try:
        if kind in ("int", "float"):
            return int(text) if kind == "int" else float(text)
        if kind in ("str", "Path", "Literal", "PathLike"):
            return text
    except ValueError:
        return UNKNOWN
    if kind == "bool" and setting.names:  # argparse's type=bool: every text that is not empty is true
        return bool(text)
    if "bool" in kind.lower():
        return True if text.lower() in _TRUE else False if text.lower() in _FALSE else UNKNOWN
    return _literal(text) if kind in ("Unknown", "NoneType", "Union", "Any") else UNKNOWN


def _literal(text: str) -> Any:
    low = text.lower()
    if low in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(low)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def common_value(values: Iterable[EffectiveValue]) -> EffectiveValue | None:
    """The one answer that all ``values`` give; None where they differ, one is unknown, or there is none."""
    found = list(values)
    if not found or any(one.value is UNKNOWN for one in found):
        return None
    return found[0] if all(one.value == found[0].value for one in found) else None


def undeclared_arguments(declared: DeclaredSettings, launch: Launch) -> Iterator[tuple[str, str]]:
    """Arguments of the command that no parser of the program has, each with the nearest that one has (or nothing).

    Only for a program with parsers whose options are all spelled out, and that knows some argument of the command.
    """
    spelled = {name for settings in declared.options.values() for one in settings for name in (*one.names, one.name)}
    given = [name for name in launch.arguments if name not in (_LOCAL_RANK, "help")]
    if declared.commands or declared.more or not any(name in spelled for name in given):
        return
    for name in given:
        if name not in spelled and not any(one.startswith(name) for one in spelled):
            alike = sorted(one for one in spelled if _last(one) == _last(name))
            yield name, next(iter(alike or difflib.get_close_matches(name, sorted(spelled), 1)), "")


def unique_defaults(declared: DeclaredSettings, changed: Container[str]) -> dict[str, tuple[Any, str]]:
    """Defaults by name, each with its place; a name with several has none, nor one that the program gives a value."""
    told: dict[str, list[DeclaredSetting]] = {}
    for one in (*declared.options.values(), *(tuple(kind.fields.values()) for kind in declared.classes.values())):
        for setting in one:
            told.setdefault(setting.name, []).append(setting)
    return {
        name: (settings[0].default, settings[0].place)
        for name, settings in told.items()
        if name not in changed
        and settings[0].default is not UNKNOWN
        and all(one.default == settings[0].default for one in settings)
    }
