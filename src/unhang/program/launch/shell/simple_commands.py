"""One command of a shell script: its words, its redirections, and whether the shell or a program does it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from unhang.findings import Source
from unhang.program.launch.follow_session import MAX_DEPTH, ScriptFrame
from unhang.program.launch.shell.builtins import builtin
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.text_filters import filter_output, is_filter
from unhang.program.launch.shell.word_expansion import UNKNOWN_MARK, expand_heredoc, expand_text, expand_words
from unhang.sentences import say


def run_redirected(frame: ScriptFrame, node: Any) -> bool | None:
    """A statement with ``> log``, ``<<EOF``; files that are written so can be read afterwards."""
    target, told = "", None
    body = node.child_by_field_name("body")
    rest = [child for child in node.named_children if child != body]
    more = [one for one in rest if one.type == "heredoc_redirect"]
    rest += [child for one in more for child in one.named_children if child.type == "file_redirect"]
    for one in rest:
        if one.type == "heredoc_redirect":
            told = _heredoc(frame, one)
        elif one.type == "herestring_redirect":
            told = expand_text(frame, one.named_children[0]) + "\n"
        elif one.type == "file_redirect" and _of_output(frame, one):
            target = frame.text(one) if not one.named_children else expand_text(frame, _destinations(one)[0])
    behind = [
        child
        for one in more
        for child in one.named_children
        if child.type in ("pipeline", "compound_statement", "subshell", "list", "command")
    ]
    return _with_output(frame, body, rest, told, target, behind)


def _with_output(
    frame: ScriptFrame, body: Any, rest: Sequence[Any], told: str | None, target: str, behind: Sequence[Any]
) -> bool | None:
    kept_in, kept_out = frame.stdin, frame.output
    frame.stdin = told if told is not None else kept_in
    if target or behind:
        frame.output = []
    status = run_command(frame, body, rest) if body is not None and body.type == "command" else None
    if body is not None and body.type != "command":
        status = frame.run(frame, body)
    out, frame.stdin, frame.output = frame.output or [], kept_in, kept_out
    if target and UNKNOWN_MARK not in "".join(out) and is_known(target) and target != "/dev/null":
        appends = any(">>" in frame.text(one) for one in rest)
        path = frame.state.place(target)
        before = frame.session.written.get(path, "") if appends else ""
        frame.session.written[path] = before + frame.session.parts.as_written("".join(out))
    for one in behind:
        frame.stdin = "".join(out)
        frame.run(frame, one)
        frame.stdin = kept_in
    return status


def _of_output(frame: ScriptFrame, node: Any) -> bool:
    """``> log``, ``>> log``, ``1> log``, ``&> log``; not ``2> log`` or ``2>&1``."""
    said = frame.text(node)
    return said.startswith((">", "1>", "&>")) and not said.startswith((">&", "1>&"))


def _destinations(node: Any) -> list[Any]:
    return [child for child in node.named_children if child.type != "file_descriptor"]


def _heredoc(frame: ScriptFrame, node: Any) -> str:
    start = next((frame.text(child) for child in node.named_children if child.type == "heredoc_start"), "")
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None:
        return ""
    return frame.text(body) if start[:1] in ("'", '"', "\\") else expand_heredoc(frame, body)


def run_command(frame: ScriptFrame, node: Any, redirects: Sequence[Any] = ()) -> bool | None:
    """Variables before it, its words, and what it does."""
    parts = [child for child in node.named_children if child.type != "comment"]
    given = [child for child in parts if child.type == "variable_assignment"]
    rest = [child for child in parts if child.type not in ("variable_assignment", "herestring_redirect")]
    told = next((child for child in parts if child.type == "herestring_redirect"), None)
    words = [word for child in rest if child.type != "file_redirect" for word in expand_words(frame, child)]
    words += _behind_redirects(frame, [*(c for c in rest if c.type == "file_redirect"), *redirects])
    kept = frame.stdin
    frame.stdin = expand_text(frame, told.named_children[0]) + "\n" if told is not None else kept
    status = _called(frame, words, given, frame.source(rest[0] if rest else node))
    frame.stdin = kept
    return status


def _behind_redirects(frame: ScriptFrame, redirects: Sequence[Any]) -> list[str]:
    """Words that stand behind a redirection are arguments all the same; ``<your_folder>`` is a place to fill in."""
    words: list[str] = []
    redirects = [one for one in redirects if one.type == "file_redirect"]
    filled = -1
    for at, (one, following) in enumerate([*pairwise([*redirects, None])]):
        places = _destinations(one)
        if following is not None and frame.text(one).startswith("<") and one.end_byte == following.start_byte:
            written = frame.text(one) + ">"
            frame.session.note(
                say("{text} is a place to fill in, which the shell takes for redirections", text=written),
                frame.source(one),
            )
            words.append(written)
            filled = at + 1
            continue
        words += [word for place in places[0 if at == filled else 1 :] for word in expand_words(frame, place)]
    return words


def _called(frame: ScriptFrame, words: list[str], given: Sequence[Any], source: Source) -> bool | None:
    if not words:
        for one in given:
            assign(frame, one)
        return True
    kept = frame.state
    if given:
        frame.state = kept.copy()
        for one in given:
            assign(frame, one, export=True)
    try:
        return _program(frame, words, source)
    finally:
        if frame.state is not kept:
            kept.ended = frame.state.ended
        frame.state = kept


def _program(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    if words[0] in frame.state.functions:
        return _function(frame, words, source)
    own = builtin(words)
    if own is not None:
        frame.say_output(UNKNOWN_MARK if words[0] in ("command", "which", "type", "grep") else "")
        return own(frame, words[1:], source)
    if is_filter(words[0]):
        said = filter_output(frame, words)
        frame.say_output(UNKNOWN_MARK if said is None else said)
        return True
    if words[0] == "tee":
        return _tee(frame, words)
    from unhang.program.launch.command_wrappers import follow_words

    frame.say_output(UNKNOWN_MARK)
    frame.session.touched.update(frame.state.place(word) for word in words[1:] if is_known(word) and word[:1] != "-")
    follow_words(frame.session, frame.state, words, source, stdin=frame.stdin)
    return None


def _tee(frame: ScriptFrame, words: list[str]) -> bool:
    names = [word for word in words[1:] if not word.startswith("-")]
    for name in names:
        if frame.stdin is not None and is_known(name):
            frame.session.written[frame.state.place(name)] = frame.session.parts.as_written(frame.stdin)
    frame.say_output(UNKNOWN_MARK if frame.stdin is None else frame.stdin)
    return True


def _function(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    function = frame.state.functions[words[0]]
    if frame.session.depth >= MAX_DEPTH:
        frame.session.note(say("functions that call each other, more than {count} deep", count=MAX_DEPTH), source)
        return None
    kept = frame.state.arguments
    frame.state.arguments = words[1:]
    inner = ScriptFrame(frame.session, frame.state, function.file, function.code, frame.run, frame.stdin, frame.output)
    frame.session.depth += 1
    status = frame.run(inner, function.body)
    frame.session.depth -= 1
    frame.state.replace_with(inner.state)
    frame.state.arguments = kept
    frame.state.ended = "" if frame.state.ended == "return" else frame.state.ended
    return status


def assign(frame: ScriptFrame, node: Any, *, export: bool = False) -> None:
    """``A=b``, ``A+=b``, ``A=(b c)``, ``A[0]=b``."""
    target, held = node.child_by_field_name("name"), node.child_by_field_name("value")
    adds = any(child.type == "+=" for child in node.children)
    if target.type == "subscript":
        name = frame.text(target.named_children[0])
        frame.state.assign(name, [frame.unknown(node, say("only running it tells"))], frame.source(node))
        return
    name, before = frame.text(target), frame.state.value(frame.text(target))
    frame.assigning = name
    if held is not None and held.type == "array":
        value: Any = [
            word for child in held.named_children if child.type != "comment" for word in expand_words(frame, child)
        ]
        value = [*([before] if isinstance(before, str) and before else before or []), *value] if adds else value
    else:
        said = "" if held is None else expand_text(frame, held)
        value = (before if isinstance(before, str) else "") + said if adds else said
    frame.assigning = ""
    frame.state.assign(name, value, frame.source(node), export=export)
