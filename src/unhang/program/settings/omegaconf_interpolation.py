"""``${a.b}`` and ``${oc.env:NAME,default}``, as OmegaConf replaces them in a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_INNER = re.compile(r"\$\{([^${}]*)\}")
MAX_ROUNDS = 8


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
