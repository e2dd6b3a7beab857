"""Configuration files of a ramp: private copies in which a value is another one; the user's files stay as they are."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli
import yaml

from unhang.errors import UsageError

KINDS = (".json", ".yaml", ".yml", ".toml")
MAX_BYTES = 1 << 20
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_BARE_TOML = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false")


def configuration_file(word: str) -> str:
    """The configuration file that a word of the command names; empty where it names none that is there."""
    name = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    path = Path(name)
    return name if path.suffix in KINDS and path.is_file() and path.stat().st_size <= MAX_BYTES else ""


def names_file(word: str, file: str) -> bool:
    """Whether a word of the command names ``file``."""
    return word == file or word.endswith(f"={file}")


def find_templates(command: Sequence[str], placeholders: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Files of the command that hold ``{name}`` of some placeholder, and which."""
    found = {}
    for file in dict.fromkeys(configuration_file(word) for word in command):
        text = _text(Path(file)) if file else ""
        held = tuple(name for name in placeholders if f"{{{name}}}" in text)
        if held:
            found[file] = held
    return found


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """``text`` with every ``{name}`` replaced; a quoted one alone becomes the bare number or switch."""
    for name, value in values.items():
        if _PLAIN.fullmatch(value):
            text = re.sub(rf"([\"'])\{{{re.escape(name)}\}}\1", value, text)
        text = text.replace(f"{{{name}}}", value)
    return text


def check_key(file: str, key: str, value: str) -> None:
    """Raise UsageError where ``file`` cannot be read, or has no ``key`` (dotted)."""
    with_values(_text(Path(file)), file, {key: value})


def write_copy(file: str, keys: Mapping[str, str], placeholders: Mapping[str, str], folder: Path) -> Path:
    """A copy of ``file`` in ``folder``: ``placeholders`` filled in, other values at ``keys`` (dotted)."""
    text = fill_placeholders(_text(Path(file)), placeholders)
    if keys:
        text = with_values(text, file, keys)
    copy = folder / Path(file).name
    if copy.exists():  # a file of the same name in another folder
        folder = Path(tempfile.mkdtemp(dir=folder))
        copy = folder / Path(file).name
    copy.write_text(text, encoding="utf-8")
    return copy


def with_values(text: str, file: str, keys: Mapping[str, str]) -> str:
    """``text`` of ``file`` with other values at ``keys``.

    Raises:
        UsageError: it cannot be read, or a key is not in it.
    """
    kind = Path(file).suffix
    if kind not in KINDS:
        raise UsageError(f"{file} is not JSON, YAML or TOML", next_step="write {NAME} where the value goes")
    try:
        if kind == ".toml":
            return _toml(text, file, keys)
        tree = json.loads(text) if kind == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{file} cannot be read ({type(error).__name__})") from error
    for key, value in keys.items():
        _set(tree, file, key, value)
    return json.dumps(tree, indent=2) if kind == ".json" else yaml.safe_dump(tree, sort_keys=False)


def _set(tree: Any, file: str, key: str, value: str) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or last not in tree:
        raise _no_key(file, key)
    tree[last] = yaml.safe_load(value)


def _toml(text: str, file: str, keys: Mapping[str, str]) -> str:
    """There is no writer of TOML here: the line of the value is changed, and what it reads as is looked at."""
    for key, value in keys.items():
        table, _, last = key.rpartition(".")
        written = value if _BARE_TOML.fullmatch(value) or value[:1] in "\"'[" else json.dumps(value)
        lines, at = text.splitlines(keepends=True), ""
        for number, line in enumerate(lines):
            if (head := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)) is not None:
                at = head[1]
            elif at == table and (match := re.match(rf"(\s*{re.escape(last)}\s*=\s*)[^#\n]*?(\s*(?:#.*)?\n?)$", line)):
                lines[number] = f"{match[1]}{written}{match[2]}"
                break
        else:
            raise _no_key(file, key)
        text = "".join(lines)
        tomli.loads(text)
    return text


def _no_key(file: str, key: str) -> UsageError:
    return UsageError(f"{file} has no {key}", next_step=f"write {key} into it with its current value")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({type(error).__name__})") from error
