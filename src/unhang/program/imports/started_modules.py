"""Modules that a program starts by name: ``python -m`` and an entry of a table that the first argument picks."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from unhang.program.syntax.syntax_tree import parse_file


def modules_started(texts: Mapping[str, str], words: Collection[str]) -> Iterator[str]:
    """``pkg.train`` of ``{"train": "pkg.train"}`` where ``train`` is among ``words``, and ``-m`` starts modules."""
    if not words or not any('"-m"' in text or "'-m'" in text for text in texts.values()):
        return
    for text in texts.values():
        program = parse_file(text) if any(word in text for word in words) else ""
        if isinstance(program, str):
            continue
        for node in ast.walk(program.tree):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    told = value.value if isinstance(value, ast.Constant) else None
                    if isinstance(key, ast.Constant) and key.value in words and _is_module(told):
                        yield str(told)


def _is_module(text: object) -> bool:
    return isinstance(text, str) and "." in text and all(part.isidentifier() for part in text.split("."))
