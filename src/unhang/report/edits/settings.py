"""Settings: variables of a shell script (a line or word changed, taken out or added), values of YAML and JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping

import yaml

from unhang.knowledge.edits import EditRow
from unhang.program.syntax.source_text import Replacement, SourceText

_WORD = r"""(?<!\S){name}=("[^"$`\\]*"|'[^']*'|[^\s"'$`\\;&|()<>#]*)(?=[\s;]|$)"""
"""``NAME=value`` with a value that is written out."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_COMMAND = re.compile(r"[\w./\"'$]")


def set_variables(
    script: SourceText, lines: Mapping[str, int], wanted: Mapping[str, str | None], *, before: int = 0
) -> tuple[Replacement, ...]:
    """``lines``: where the script sets them; ``wanted``: the value of each then, None for none. New ones come
    before the first of these lines, else before the line ``before``.

    Empty where one of them is named elsewhere in the script too, or is not set by a plain word.
    """
    if max(before, *lines.values(), 0) > len(script.lines):
        return ()
    changes = [_changed(script, name, line, wanted[name]) for name, line in lines.items()]
    new = {name: value for name, value in wanted.items() if name not in lines and value is not None}
    first = min(lines.values(), default=before)
    if new and first:
        text, start = script.lines[first - 1], script.start_of(first)
        head = f"{text[: len(text) - len(text.lstrip())]}export"
        added = "".join(f"{head} {name}={shlex.quote(value)}{script.newline}" for name, value in new.items())
        changes.append(None if _goes_on(script, first) else Replacement(start, start, added))
    return tuple(one for one in changes if one is not None) if None not in changes else ()


def _changed(script: SourceText, name: str, line: int, value: str | None) -> Replacement | None:
    text, start = script.lines[line - 1], script.start_of(line)
    found = re.search(_WORD.format(name=re.escape(name)), text)
    if found is None or len(re.findall(rf"\b{re.escape(name)}\b", _COMMENT.sub("", script.text))) != 1:
        return None
    if value is not None:
        return Replacement(start + found.start(1), start + found.end(1), shlex.quote(value))
    before, after = text[: found.start()], text[found.end() :]
    words, rest = before.split(), after.partition("#")[0].strip()
    if (rest == "\\" and not words) or (before == "export " and not rest and not _goes_on(script, line)):
        return Replacement(start, start + len(text), "")
    alone = words in ([], ["env"], ["export"]) and not _COMMAND.match(rest)
    if alone or (words and words[-1].startswith("-")):
        return None
    return Replacement(start + found.start(), start + len(text) - len(after.lstrip(" \t")), "")


def _goes_on(script: SourceText, line: int) -> bool:
    """The line before it ends in a backslash."""
    return line > 1 and script.lines[line - 2].rstrip("\r\n").endswith("\\")


def set_values(file: SourceText, row: EditRow, held: Collection[str]) -> tuple[Replacement, ...]:
    """The keys ``row.name`` (dotted, parted by commas) get the value ``row.code``.

    Empty where one of them is not there just once with the value that ``held`` says (``key: value``).
    """
    loader, made = yaml.SafeLoader(file.text), list[Replacement]()
    try:
        tree = loader.get_single_node()
        for name in row.name.split(", "):
            found = [tree]
            for part in name.split("."):
                tables = [node for node in found if isinstance(node, yaml.MappingNode)]
                found = [value for table in tables for key, value in table.value if key.value == part]
            if len(found) != 1 or f"{name}: {loader.construct_object(found[0])}" not in held:
                return ()
            if not isinstance(found[0], yaml.ScalarNode) or found[0].style not in (None, "'", '"'):
                return ()
            made.append(Replacement(found[0].start_mark.index, found[0].end_mark.index, row.code))
        shared = any(isinstance(one, yaml.AliasToken) for one in yaml.scan(file.text))
    except yaml.YAMLError:
        return ()
    return () if shared else tuple(made)
