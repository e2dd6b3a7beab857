"""The messages at WARN or above in Python sources: what is logged, warned of, raised and asserted.

f-strings, %-formats, ``.format`` and concatenations become a template in which ``{}`` stands for what is filled in.
"""

from __future__ import annotations

import ast
import re
import string
from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

FILLED, CARRIED = "\0", "\1"
"""What is filled in; the second is the text of another exception."""
MOST_CHARS = 240
"""So much of a template is kept: the rest makes it no clearer which one it is."""
MIN_WORDS = 3
_METHOD = re.compile(
    r"_?(?:rank_zero_|log_)?(?P<level>warn|warning|error|critical|exception|fatal)(?:_rank0|_rank_0)?(?:_once)?"
)
_LEVELS = {"warn": "warning", "exception": "error", "fatal": "critical"}
_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?[diouxXeEfFgGcrsa]")
_BRACES = re.compile(r"\{[^{}]*\}")
_EXCEPTION = re.compile(
    r"(?:(?:str|repr|type)\()?(?:\w+\.)*_?(?:e|ex|exc|err|error|exception|exc_value|\w+_(?:error|exception|err|exc))s?\)?"
    r"|.*(?:format_exc|traceback|__cause__|stderr).*"
)
"""Expressions that hold what another error said."""
_WORD = re.compile(r"[^\W\d_\u4e00-\u9fff]{2,}|[\u4e00-\u9fff]")
_LINES = re.compile(r"[\r\n]+")
_SAME = {"strip", "lstrip", "rstrip", "dedent", "cleandoc"}
"""Calls that leave the words of a text as they are."""
Names = MutableMapping[str, ast.expr]


@dataclass(frozen=True, slots=True)
class Message:
    """A template, ``level`` or exception, and where it stands. ``carries``: it ends with what another exception said,
    or that one is printed with it."""

    level: str
    place: str
    template: str
    carries: bool = False


def messages_in(path: str, source: str | bytes) -> Iterator[Message]:
    """Those of the module at ``path``; none where it is no Python that this interpreter reads."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    reader = _Reader(path)
    reader.visit(tree)
    yield from reader.found


def template_of(text: str) -> str:
    """The first line of ``text`` that has enough words to be known by, as a template; empty where none has."""
    for line in _LINES.split(text):
        plain = " ".join(line.split())
        if len(_WORD.findall(_BRACES.sub(" ", plain))) >= MIN_WORDS:
            short = plain if len(plain) <= MOST_CHARS else plain[:MOST_CHARS].rpartition(" ")[0]
            return re.sub(rf"[{FILLED}{CARRIED}]+", "{}", short)
    return ""


class _Reader(ast.NodeVisitor):
    """Walks a module in the order of its lines, so that a name is what was last written to it."""

    def __init__(self, path: str) -> None:
        self.found: list[Message] = []
        self._path = path
        self._inside: list[str] = []
        self._names: ChainMap[str, ast.expr] = ChainMap()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        outer, self._names = self._names, self._names.new_child()
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()
        self._names = outer

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._names[target.id] = node.value
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and node.target.id in self._names and isinstance(node.op, ast.Add):
            self._names[node.target.id] = ast.BinOp(self._names[node.target.id], ast.Add(), node.value)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call) and node.exc.args:
            chained = node.cause is not None and not isinstance(node.cause, ast.Constant)
            self._take(_last_name(node.exc.func), node.exc.args[0], carries=chained)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if node.msg is not None:
            self._take("AssertionError", node.msg)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        level, args = level_of(node)
        if level and args:
            shown = any(word.arg == "exc_info" and ast.unparse(word.value) != "False" for word in node.keywords)
            carries = shown or _last_name(node.func).startswith("exception")
            self._take(level, args[0], args[1:], carries=carries)
        self.generic_visit(node)

    def _take(self, level: str, said: ast.expr, filled: list[ast.expr] | None = None, *, carries: bool = False) -> None:
        if isinstance(said, ast.IfExp):
            for either in (said.body, said.orelse):
                self._take(level, either, filled, carries=carries)
            return
        text = text_of(said, self._names)
        if filled and level[0].islower():
            text = _fill(text, filled[-1])
        template = template_of(text)
        if template:
            carries = carries or text.rstrip(" .)\"'`\n").endswith(CARRIED)
            function = ".".join(self._inside) or "<module>"
            self.found.append(Message(level, f"{self._path}:{function}", template, carries))


def level_of(call: ast.Call) -> tuple[str, list[ast.expr]]:
    """At which level ``call`` logs or warns, and what it is given of a message; empty where it does neither."""
    name, args = _last_name(call.func), call.args
    receiver = _last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name == "warn" and receiver in ("", "warnings"):
        told = [*args[1:2], *(word.value for word in call.keywords if word.arg == "category")]
        category = _last_name(told[0]) if told else ""
        return category if category.endswith("Warning") else "UserWarning", args[:1]
    known = _METHOD.fullmatch(name)
    if known and ("log" in receiver.lower() or known["level"] != name):
        return _LEVELS.get(known["level"], known["level"]), args
    if "log" in name.lower():
        given = [*args, *(word.value for word in call.keywords if word.arg == "level")]
        for arg in given:
            level = _last_name(arg).lower()
            if isinstance(arg, ast.Attribute) and level in ("warning", "warn", "error", "critical", "fatal"):
                return _LEVELS.get(level, level), [other for other in args if other is not arg]
    return "", []


def text_of(node: ast.expr, names: Names, depth: int = 0) -> str:
    """What ``node`` prints, with a mark where something is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else FILLED
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, names, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        constant = isinstance(node.value, ast.Name) and node.value.id.isupper()
        return (
            text_of(node.value, names, depth) if constant or isinstance(node.value, ast.Constant) else _mark(node.value)
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left, names, depth) + text_of(node.right, names, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        last = node.right.elts[-1] if isinstance(node.right, ast.Tuple) and node.right.elts else node.right
        return _fill(text_of(node.left, names, depth), last)
    if isinstance(node, ast.Name) and node.id in names and depth < MIN_WORDS:
        text = text_of(names[node.id], names, depth + 1)
        return text if text.strip(FILLED) else _mark(node)
    if isinstance(node, ast.Call):
        return _text_of_call(node, names, depth)
    return _mark(node)


def _text_of_call(node: ast.Call, names: Names, depth: int) -> str:
    name, func = _last_name(node.func), node.func
    inner = func.value if isinstance(func, ast.Attribute) else None
    if name == "format" and inner is not None:
        given = [*node.args, *(word.value for word in node.keywords)]
        return _fill_braces(text_of(inner, names, depth), given[-1] if given else None)
    if (
        name == "join"
        and isinstance(inner, ast.Constant)
        and node.args
        and isinstance(node.args[0], ast.List | ast.Tuple)
    ):
        return str(inner.value).join(text_of(part, names, depth) for part in node.args[0].elts)
    if name in _SAME and inner is not None and not (node.args and name in ("dedent", "cleandoc")):
        return text_of(inner, names, depth)
    if name in _SAME and node.args:
        return text_of(node.args[0], names, depth)
    return _mark(node)


def _fill(text: str, last: ast.expr) -> str:
    """A format of ``%`` or, as some loggers take it, of braces, with marks in its places."""
    if _PERCENT.search(text):
        return _with_last(_PERCENT.sub(FILLED, text.replace("%%", "\2")).replace("\2", "%"), last)
    return _fill_braces(text, last) if "{" in text else text


def _fill_braces(text: str, last: ast.expr | None) -> str:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return text
    return _with_last("".join(said + (FILLED if name is not None else "") for said, name, *_ in parts), last)


def _with_last(text: str, last: ast.expr | None) -> str:
    """``text``, whose last mark stands for ``last``."""
    before, mark, behind = text.rpartition(FILLED)
    return f"{before}{_mark(last)}{behind}" if mark and last is not None else text


def _mark(node: ast.expr) -> str:
    return CARRIED if _EXCEPTION.fullmatch(ast.unparse(node).replace("\n", " ")) else FILLED


def _last_name(node: ast.expr) -> str:
    """``warning`` of ``self.logger.warning``; that of the function for what a call gives."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
