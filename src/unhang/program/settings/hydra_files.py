"""Hydra's configuration: the file that ``@hydra.main`` or the command names, with its defaults list and overrides.

As of Hydra 1.1 (``hydra/_internal/defaults_list.py``): a file comes after what its defaults list names, unless
``_self_`` stands somewhere else in that list; a file of the group ``a/b`` fills ``a.b``, unless its header says another
package. What refers to other values (``${a.b}``, ``${oc.env:NAME,default}``) is replaced as OmegaConf does.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unhang.program.syntax.syntax_tree import parse_file, walk

MAX_FILES, MAX_DEPTH = 60, 12
HYDRA_OPTIONS = frozenset(("config_name", "config_path", "config_dir", "cn", "cp", "cd", "multirun", "m"))
"""Arguments of the command that are no overrides."""
_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
_OVERRIDE = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w./@-]*)(?:=(.*))?", re.DOTALL)
Reader = Callable[[str], Mapping[str, Any] | None]
"""What a file holds; None where it cannot be read."""
_INNER = re.compile(r"\$\{([^${}]*)\}")
MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class HydraMain:
    """``@hydra.main(config_path=…, config_name=…)`` of a script."""

    path: str
    name: str


def hydra_main(source: str) -> HydraMain | None:
    """What the decorator in ``source`` names; None where there is none."""
    program = parse_file(source)
    for node in () if isinstance(program, str) else walk(program.tree):
        for one in getattr(node, "decorator_list", ()):
            if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(
                ("hydra.main", "hydra_main", "hydra_runner")
            ):
                told = {word.arg: word.value.value for word in one.keywords if isinstance(word.value, ast.Constant)}
                return HydraMain(str(told.get("config_path") or ""), str(told.get("config_name") or ""))
    return None


@dataclass(slots=True)
class HydraComposer:
    """Puts one configuration together. ``text`` gives a file's text, for its header."""

    folder: str
    read: Reader
    text: Callable[[str], str]
    words: Sequence[str]
    files: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def composed(self, name: str) -> dict[str, Any]:
        """The configuration ``name``, with what the command's words override."""
        tree = self._file(name.removesuffix(".yaml"), "", 0)
        for sign, key, value in self._overrides():
            if sign == "~":
                _delete(tree, key.split("."))
            elif not self._is_group(key):
                _place(tree, key.split("."), value)
        tree.pop("hydra", None)
        return tree

    def _overrides(self) -> Iterator[tuple[str, str, Any]]:
        for word in self.words:
            found = _OVERRIDE.fullmatch(word)
            if found and (found[3] is not None or found[1] == "~"):
                yield found[1], found[2], scalar(found[3] or "")

    def _is_group(self, key: str) -> bool:
        return any(path.startswith(f"{key}/") for path in self.files) or "/" in key or "@" in key

    def _file(self, name: str, group: str, depth: int) -> dict[str, Any]:
        path = posixpath.join(group, name).lstrip("/")
        tree = self.read(posixpath.join(self.folder, f"{path}.yaml"))
        if depth > MAX_DEPTH or len(self.files) > MAX_FILES or tree is None:
            self.missing.append(path)
            return {}
        self.files.append(f"{path}.yaml")
        own = {key: value for key, value in tree.items() if key != "defaults"}
        package = _PACKAGE.search(self.text(posixpath.join(self.folder, f"{path}.yaml")))
        placed = _placed(own, _package_of(package[1] if package else "", group))
        found: dict[str, Any] = {}
        entries = tree.get("defaults")
        entries = entries if isinstance(entries, list) else []
        for entry in [*entries, *(["_self_"] if "_self_" not in entries else [])]:
            _merge(found, placed if entry == "_self_" else self._entry(entry, group, depth))
        return found

    def _entry(self, entry: Any, group: str, depth: int) -> dict[str, Any]:
        """One line of a defaults list: ``base``, ``model: llama``, ``/model@teacher: a``, ``optional db: mysql``."""
        if isinstance(entry, str):
            return self._file(entry.lstrip("/"), "" if entry.startswith("/") else group, depth + 1)
        if not isinstance(entry, Mapping) or not entry:
            return {}
        key, option = next((str(key), value) for key, value in entry.items())
        optional, key = key.startswith("optional "), key.removeprefix("optional ")
        if key.startswith("override "):
            return {}
        name, _, package = key.partition("@")
        inner = name.lstrip("/") if name.startswith("/") else posixpath.join(group, name)
        option = self._chosen(inner, option)
        found: dict[str, Any] = {}
        for one in option if isinstance(option, list) else [option]:
            if one is None or str(one) == "null":
                continue
            known = len(self.missing)
            _merge(found, self._file(str(one).removesuffix(".yaml"), inner, depth + 1))
            if optional:
                del self.missing[known:]
        return _moved(found, inner, package) if package else found

    def _chosen(self, group: str, option: Any) -> Any:
        told = (value for _, key, value in self._overrides() if key.replace(".", "/") == group)
        return next((value for value in told if isinstance(value, str)), option)


def scalar(text: str) -> Any:
    """A value of the command, as YAML reads it; the text itself where it is none."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _package_of(header: str, group: str) -> list[str]:
    if header == "_global_":
        return []
    return [part for part in (header.replace("_group_", group) or group).replace("/", ".").split(".") if part]


def _placed(tree: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    found = dict(tree)
    for part in reversed(path):
        found = {part: found}
    return found


def _moved(tree: Mapping[str, Any], group: str, package: str) -> dict[str, Any]:
    node: Any = tree
    for part in group.split("/"):
        node = node.get(part, {}) if isinstance(node, Mapping) else {}
    inside = node if isinstance(node, Mapping) else {}
    return _placed(inside, [] if package == "_global_" else package.split("."))


def _merge(into: dict[str, Any], tree: Mapping[str, Any]) -> None:
    for key, value in tree.items():
        known = into.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            _merge(known, value)
        else:
            into[key] = _copied(value)


def _copied(value: Any) -> Any:
    return {key: _copied(held) for key, held in value.items()} if isinstance(value, Mapping) else value


def _place(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            inner = tree[part] = {}
        tree = inner
    tree[path[-1]] = value


def _delete(tree: dict[str, Any], path: Sequence[str]) -> None:
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.pop(path[-1], None)


def interpolate(tree: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """``tree`` with every reference that can be followed replaced by its value; the others stay as they are written."""
    return {key: _value(value, tree, environment) for key, value in tree.items()}


def _value(value: Any, tree: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _value(held, tree, environment) for key, held in value.items()}
    if isinstance(value, list):
        return [_value(held, tree, environment) for held in value]
    return _text(value, tree, environment) if isinstance(value, str) and "${" in value else value


def _text(text: str, tree: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    for _ in range(MAX_ROUNDS):
        whole = _INNER.fullmatch(text)
        if whole:
            found = _referred(whole[1], tree, environment)
            if not isinstance(found, str) or "${" not in found:
                return text if found is None else found
            text = found
            continue
        replaced = _INNER.sub(lambda one: _as_text(_referred(one[1], tree, environment), one[0]), text)
        if replaced == text:
            break
        text = replaced
    return text


def _as_text(value: Any, written: str) -> str:
    return written if value is None or isinstance(value, Mapping | list) else str(value)


def _referred(name: str, tree: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    if name.startswith(("oc.env:", "env:")):
        variable, sign, default = name.partition(":")[2].partition(",")
        return environment.get(variable.strip(), default.strip() if sign else None)
    node: Any = tree
    for part in name.strip().replace("[", ".").replace("]", "").split("."):
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, Mapping) and part in node:
            node = node[part]
        else:
            return None
    return node
