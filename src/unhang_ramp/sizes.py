"""The sizes of a ramp: what grows, in which steps, and the command at one size."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unhang.errors import UsageError
from unhang_ramp import configuration_copies

MAX_VALUES = 64
_GROW = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<values>[^@]+?)(?:@(?P<file>[^:]+):(?P<key>[\w.]+))?")
_NEXT = "unhang ramp --grow batch=1,2,4,8 -- torchrun … train.py --batch {batch}"
# How a step's time may grow with the size: not at all, in proportion, with its square.
_EXPONENTS = (
    (("ranks", "nproc", "nodes", "world", "gpus", "processes"), 0.0),
    (("seq", "length", "context", "tokens"), 2.0),
    (("zero", "stage"), None),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing that grows. ``file`` and ``key``: a value in a JSON, YAML or TOML file the command names, dotted; else
    the placeholder ``{name}`` in the command or in such a file.
    """

    name: str
    values: tuple[str, ...]
    file: str = ""
    key: str = ""

    def expected(self, before: str, now: str) -> float | None:
        """How many times longer a step may take at ``now`` than at ``before``; None where that cannot be said."""
        exponent = next((e for parts, e in _EXPONENTS if any(part in self.name.lower() for part in parts)), 1.0)
        old, new = _number(before), _number(now)
        if exponent is None or old is None or new is None or old <= 0:
            return None
        return float(max(1.0, new / old) ** exponent)


def parse_growth(text: str) -> Growth:
    """``batch=1,2,4``, ``batch=1:64`` (doubling), ``zero=2,3@ds.json:zero_optimization.stage``.

    Raises:
        UsageError: it is none of these.
    """
    match = _GROW.fullmatch(text)
    values = _values(match["values"]) if match else ()
    if match is None or not values or len(values) > MAX_VALUES:
        raise UsageError(f"--grow expects NAME=1,2,4 or NAME=1:64, not {text}", next_step=_NEXT)
    return Growth(match["name"], values, match["file"] or "", match["key"] or "")


def _values(text: str) -> tuple[str, ...]:
    first, colon, last = text.partition(":")
    if not colon:
        return tuple(value.strip() for value in text.split(",") if value.strip())
    if not (first.isdecimal() and last.isdecimal()) or not 0 < int(first) <= int(last):
        return ()
    found = [int(first)]
    while found[-1] < int(last) and len(found) <= MAX_VALUES:
        found.append(min(2 * found[-1], int(last)))
    return tuple(map(str, found))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_placeholders(command: Sequence[str], growths: Sequence[Growth]) -> None:
    """Raise UsageError where something that grows has no place, or a place nothing that grows."""
    if not growths:
        raise UsageError("use --grow to say what grows", next_step=_NEXT)
    if "{" not in command[0] and shutil.which(command[0]) is None:
        raise UsageError(f"command not found: {command[0]}")
    held = {
        name
        for files in configuration_copies.find_templates(command, [g.name for g in growths]).values()
        for name in files
    }
    for one in growths:
        if one.file and not any(configuration_copies.names_file(word, one.file) for word in command):
            raise UsageError(
                f"the command does not name {one.file}", next_step=f"add {one.file} as the command takes it"
            )
        if not one.file and f"{{{one.name}}}" not in " ".join(command) and one.name not in held:
            raise UsageError(
                f"the command does not contain {{{one.name}}}",
                next_step=f"write {{{one.name}}} where it goes, in the command or in a configuration file it names",
            )
        if one.file:
            configuration_copies.check_key(one.file, one.key, one.values[0])


def ramp_sizes(growths: Sequence[Growth]) -> Iterator[tuple[Growth | None, dict[str, str]]]:
    """The first size, then one thing after another, each to its end: (what grew, all values)."""
    at = {one.name: one.values[0] for one in growths}
    yield None, dict(at)
    for one in growths:
        for value in one.values[1:]:
            at[one.name] = value
            yield one, dict(at)


def command_for_size(
    command: Sequence[str], growths: Sequence[Growth], at: Mapping[str, str], folder: Path
) -> list[str]:
    """``command`` at one size; changed copies of configuration files go to ``folder``."""
    free = {one.name: at[one.name] for one in growths if not one.file}
    held = configuration_copies.find_templates(command, list(free))
    words = list(command)
    for name, value in free.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    for file in dict.fromkeys((*held, *(one.file for one in growths if one.file))):
        keys = {one.key: at[one.name] for one in growths if one.file == file}
        copy = configuration_copies.write_copy(file, keys, {name: free[name] for name in held.get(file, ())}, folder)
        words = [
            word.replace(file, str(copy)) if configuration_copies.names_file(word, file) else word for word in words
        ]
    return words
