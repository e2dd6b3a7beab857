"""What a catalogue must hold: every ``say("…")`` of the sources, and every sentence that an explanation shows.

python -m scripts.catalogue LANG lists what is missing from the catalogue of LANG, and what is superfluous.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

from unhang.cli.command_line import MORE, VERBS, WORDS_OF_HELP, command_line
from unhang.findings import Cause
from unhang.knowledge.hardware import xid_row
from unhang.knowledge.job.environment_variables import CostlySetting, EnvironmentVariable, Nccl2Row, variables
from unhang.knowledge.job.job_paths import FileSystemRow
from unhang.knowledge.job.workarounds import workarounds
from unhang.knowledge.messages import load_messages
from unhang.knowledge.tables import read_rows
from unhang.knowledge.terms import Advice, terms
from unhang.knowledge.words import translations
from unhang.report.explain.article_advice import passed_on
from unhang.report.explain.cause_pages import cause_parts
from unhang.report.explain.code_pages import DOCUMENTED_XIDS
from unhang.report.language import catalogue, error_catalogue

_WORDS = re.compile(r"\b[a-z]{2,} [a-z]{2,}\b|\b(?:unset|from|since|excludes|prefix|comma)\b")


def values_of(variable: EnvironmentVariable) -> tuple[str, ...]:
    """What a page says of the values of a variable: which it takes, the default, since when; empty ones left out."""
    defaults = "; ".join(f"{item.since}+: {item.value}" for item in variable.defaults)
    return tuple(filter(None, (variable.values, variable.default, variable.since, defaults)))


def known_sentences() -> Iterator[str]:
    """The sentences, page by page; some stand twice.

    Of variables: what they do, cost and get in the way of, and the values, defaults and versions that are more than a
    number or a name.
    """
    for cause in Cause:
        title, parts = cause_parts(cause)
        yield from (title, *parts.values())
    for term in terms():
        yield from (term.meaning, *term.do, *(text for _, text in term.judged), *filter(None, (term.harmless,)))
    yield from (advice.do for advice in read_rows("advice.toml", "advice", Advice))
    yield from (row.because for row in passed_on())
    yield from (row.meaning for row in map(xid_row, DOCUMENTED_XIDS) if row is not None)
    yield from (row.meaning for row in load_messages())
    for variable in variables():
        yield from (variable.effect, *filter(None, (variable.cost,)), *(item.why for item in variable.conflicts))
        yield from filter(_WORDS.search, values_of(variable))
    for row in read_rows("costly.toml", "costly", CostlySetting):
        yield from (row.effect, row.unless)
    for workaround in workarounds():
        yield from (workaround.switches_off, workaround.reason, workaround.repair)
    yield from (row.effect for row in read_rows("nccl2.toml", "variable", Nccl2Row))
    yield from (row.effect for row in read_rows("file_systems.toml", "file_system", FileSystemRow))


def templates_in(folder: Path) -> Iterator[tuple[str | None, Path, int]]:
    """Every ``say(…)`` below ``folder``: its literal template (None when it is not a literal), file and line."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) == "say" and node.args:
                first = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
                yield (first if isinstance(first, str) else None), path, node.lineno


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return ""


def source_templates() -> set[str]:
    """Templates of the sources, and of the remedies."""
    found = {
        template for folder in template_folders() for template, _, _ in templates_in(folder) if template is not None
    }
    return found | {english for english, _ in translations("zh")} | set(help_texts())


def help_texts() -> Iterator[str]:
    """Every paragraph of every verb's help, titles and what the parser adds included; no examples."""
    yield from ("Usage: ", "Examples:", MORE, *WORDS_OF_HELP.values(), *(verb.of_lab for verb in VERBS if verb.of_lab))
    commands: list[Any] = [get_command(command_line())]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        with Context(command) as context:
            shown = [param.help for param in command.get_params(context) if not param.hidden and param.help]
        for text in filter(None, (command.help, command.epilog, *shown)):
            yield from text.split("\n\n")


def template_folders() -> tuple[Path, ...]:
    """Folders of the packages whose templates the catalogues hold: this one, and those beside it that are installed."""
    specs = (find_spec(name) for name in ("unhang", "unhang_compare", "unhang_lab", "unhang_ramp", "unhang_reshard"))
    return tuple(Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None)


OF_ERRORS = {
    *("UnhangError", "UsageError", "EvidenceError", "DumpError", "ArchiveError", "HistoryError", "MissingExtra"),
    *("Unread", "_unavailable", "_refuse", "note"),
}
"""Calls that are given an error, why something was not read, or a note, in English."""
ENGLISH_ONLY = {"guards", "integrations"}
"""What they raise is read in the program that calls them, beside its own traceback."""


def error_templates() -> set[str]:
    """Templates of errors, of what helps then, of reasons and notes: those a command may print."""
    found: set[str] = set()
    for folder in template_folders():
        for path in sorted(folder.rglob("*.py")):
            if not ENGLISH_ONLY.intersection(path.relative_to(folder).parts):
                found.update(error_templates_in(ast.parse(path.read_text("utf-8"))))
    return found


def error_templates_in(tree: ast.Module) -> Iterator[str]:
    """The same of one module: literals and f-strings of several words, their places numbered."""
    named = {target.id: node.value for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func) in OF_ERRORS:
            given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "next_step")]
            for one in given:
                for branch in (one.body, one.orelse) if isinstance(one, ast.IfExp) else (one,):
                    template = numbered_template(named.get(getattr(branch, "id", ""), branch))
                    if re.search(r"[a-z] ", template):
                        yield template


def _targets(node: ast.stmt) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else []


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else _name(function)


def numbered_template(node: ast.AST) -> str:
    """The text of a literal, as ``str.format`` reads it; places of an f-string are ``{1}``, ``{2}``; else empty."""
    if isinstance(node, ast.JoinedStr):
        numbers = count(1)
        parts = (part if isinstance(part, ast.Constant) else f"{{{next(numbers)}}}" for part in node.values)
        return "".join(part if isinstance(part, str) else numbered_template(part) for part in parts)
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text.replace("{", "{{").replace("}", "}}")


def missing_templates(lang: str) -> tuple[str, ...]:
    """Templates of the sources that the catalogue of ``lang`` does not hold."""
    return tuple(sorted(source_templates() - set(catalogue(lang))))


def unused_templates(lang: str) -> tuple[str, ...]:
    """Templates of the catalogue of ``lang`` that no source says any more."""
    return tuple(sorted(set(catalogue(lang)) - source_templates()))


if __name__ == "__main__":
    language = sys.argv[1] if len(sys.argv) > 1 else "zh"
    print(*(f"missing: {template}" for template in missing_templates(language)), sep="\n")
    print(*(f"superfluous: {template}" for template in unused_templates(language)), sep="\n")
    print(*(f"missing error: {one}" for one in sorted(error_templates() - error_catalogue(language).keys())), sep="\n")
