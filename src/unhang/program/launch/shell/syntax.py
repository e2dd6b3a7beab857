"""Shell scripts as syntax trees, by tree-sitter's grammar of bash, and the queries that are put to them."""

from __future__ import annotations

import re
import time
from functools import cache, partial
from typing import Any

from unhang.sentences import Text, say

MAX_REPAIRS = 8
LIMIT_S, PIECE = 2.0, 512
MAX_BYTES, MAX_PIPES = 1 << 17, 2000
"""The time and the memory of the parser (0.26.1) grow with the square of a pipeline's length: 7 s for 16,000."""
_LAST_CONTINUATION = re.compile(rb"\\\s*\Z")
"""A backslash at the end of the file, which bash takes and the grammar does not."""
_NAME = re.compile(rb"[A-Za-z_]\w*")
_NOT_SHELL = "[(ERROR) (MISSING)] @found"
_BARE_DOLLAR = '(concatenation "$" @found)'
_ASSIGNED_BEFORE = "(command (variable_assignment) @found . name: (_) @name)"


@cache
def _query(query: str) -> Any:
    import tree_sitter

    return tree_sitter.Query(_language(), query)


@cache
def _language() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def parse_script(code: bytes) -> tuple[Any, bytes, Text | None]:
    """The tree of a script and the text it belongs to; None and why not where it cannot be read here."""
    if len(code) > MAX_BYTES or code.count(b"|") > MAX_PIPES:
        return None, code, say("it is too large to follow as a script")
    try:
        return _parsed(_LAST_CONTINUATION.sub(b"\n", code))
    except ImportError:
        return None, code, say("reading shell scripts needs tree-sitter-bash, which is not installed with unhang")
    except ValueError:  # the grammar was made for another release of tree-sitter
        return None, code, say("the installed tree-sitter cannot read the grammar of tree-sitter-bash")


def _parsed(code: bytes) -> tuple[Any, bytes, Text | None]:
    """The tree of ``code``, mended where the grammar (0.25.1) reads it otherwise than bash does."""
    import tree_sitter

    until = time.monotonic() + LIMIT_S
    tree = None
    for _ in range(MAX_REPAIRS):
        tree = tree_sitter.Parser(_language()).parse(partial(_piece, code, until)).root_node
        if time.monotonic() > until:
            return None, code, say("parsing the script took more than {seconds:.0f} s", seconds=LIMIT_S)
        mended = _mended(tree, code)
        if mended == code:
            break
        code = mended
    return tree, code, None


def _piece(code: bytes, until: float, at: int, point: object) -> bytes:  # noqa: ARG001 - as the parser calls it
    """What the parser reads at ``at``; the end of the text once the time is over: it goes back often in odd texts."""
    return code[at : at + PIECE] if time.monotonic() < until else b""


def _matches(tree: Any, query: str) -> list[dict[str, list[Any]]]:
    import tree_sitter

    return [found for _, found in tree_sitter.QueryCursor(_query(query)).matches(tree)]


def _mended(tree: Any, code: bytes) -> bytes:
    """`A=1 B=2` and the line below are taken for one command, and `$A--$B` for `$A--$` before a word `B`."""
    assigned = [(one["found"][-1].end_byte, one["name"][0].start_byte) for one in _matches(tree, _ASSIGNED_BEFORE)]
    ends = [end for end, name in assigned if b"\n" in code[end:name] and b"\\\n" not in code[end:name]]
    bare = [one["found"][0].end_byte for one in _matches(tree, _BARE_DOLLAR)]
    names = [name for at in bare if (name := _NAME.match(code, at))]
    places = [*((end, end, b";") for end in ends), *((*name.span(), b"{" + name[0] + b"}") for name in names)]
    for start, end, text in sorted(places, reverse=True):
        code = code[:start] + text + code[end:]
    return code


def first_error(tree: Any) -> Any:
    """The first place that is no shell, in order of the text; None in most scripts."""
    found = [node for one in _matches(tree, _NOT_SHELL) for node in one["found"]] if tree.has_error else []
    return min(found, key=lambda node: node.start_byte, default=None)
