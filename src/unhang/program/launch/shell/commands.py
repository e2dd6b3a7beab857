"""One command of a shell script: its words, its redirections, and whether the shell or a program does it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from unhang.findings import Source
from unhang.program.launch.shell.builtins import builtin
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import MAX_DEPTH, FollowSession, Run, ScriptFrame, StartedCommand
from unhang.program.launch.shell.state import ShellState
from unhang.program.launch.shell.syntax import first_error, parse_script
from unhang.program.launch.shell.words import expand_heredoc, expand_text, expand_words
from unhang.sentences import say

_OF_ITS_OWN = ("variable_assignment", "herestring_redirect", "file_redirect")
_BEHIND = ("pipeline", "compound_statement", "subshell", "list", "command")


def run_script(session: FollowSession, state: ShellState, run: Run, script: str, source: Source) -> bool | None:
    """Go through ``script``, which is the file of ``source``, or a text in its line."""
    path = source.path
    tree, code, trouble = parse_script(script.encode("utf-8", "replace"))
    if trouble is not None:
        session.note(trouble, Source(path))
        return None
    if state.depth >= MAX_DEPTH:
        session.note(say("scripts start each other more than {count} levels deep", count=MAX_DEPTH), Source(path))
        return None
    frame = ScriptFrame(session, state, path, code, run, line=source.line)
    torn = first_error(tree)
    if torn is not None:
        session.note(say("this cannot be parsed as shell, so what follows may be wrong"), frame.source(torn))
    state.depth += 1
    try:
        return run(frame, tree)
    except RecursionError:
        session.note(say("it is nested too deeply to follow"), Source(path))
        return None
    finally:
        state.depth -= 1


def run_redirected(frame: ScriptFrame, node: Any) -> bool | None:
    """A statement with ``> log``, ``<<EOF``; files that are written so can be read afterwards."""
    body = node.child_by_field_name("body")
    redirects = [child for child in node.named_children if child != body]
    heredocs = [one for one in redirects if one.type == "heredoc_redirect"]
    within = [child for one in heredocs for child in one.named_children]
    files = [one for one in (*redirects, *within) if one.type == "file_redirect"]
    behind = [one for one in within if one.type in _BEHIND]
    into = next((one for one in reversed(files) if _is_of_output(frame, one)), None)
    kept_in, kept_out = frame.stdin, frame.output
    for one in heredocs:
        frame.stdin = _heredoc(frame, one)
    if into is not None or behind:
        frame.output = []
    if body is not None:
        status = run_command(frame, body, files) if body.type == "command" else frame.run(frame, body)
    else:
        status = None
    printed, frame.stdin, frame.output = frame.printed(), kept_in, kept_out
    if into is not None:
        _write(frame, into, printed)
    for one in behind:
        frame.stdin = printed
        frame.run(frame, one)
    frame.stdin = kept_in
    return status


def _write(frame: ScriptFrame, redirect: Any, text: str | None) -> None:
    place = next(iter(_destinations(redirect)), None)
    path = "" if place is None else expand_text(frame, place)
    if path and is_known(path) and path != "/dev/null":
        path = frame.state.place(path)
        if text is None:
            frame.session.touched.update((path, path))  # the program's own words are counted once
        else:
            before = frame.session.written.get(path, "") if ">>" in frame.text(redirect) else ""
            frame.session.written[path] = before + frame.session.parts.as_written(text)


def _is_of_output(frame: ScriptFrame, node: Any) -> bool:
    """``> log``, ``>> log``, ``1> log``, ``&> log``; not ``2> log`` or ``2>&1``."""
    said = frame.text(node)
    return said.startswith((">", "1>", "&>")) and not said.startswith((">&", "1>&"))


def _destinations(node: Any) -> list[Any]:
    return [child for child in node.named_children if child.type != "file_descriptor"]


def _heredoc(frame: ScriptFrame, node: Any) -> str:
    parts = {child.type: child for child in node.named_children}
    body = parts.get("heredoc_body")
    if body is None:
        return ""
    return frame.text(body) if frame.text(parts["heredoc_start"])[:1] in "'\"\\" else expand_heredoc(frame, body)


def run_command(frame: ScriptFrame, node: Any, redirects: Sequence[Any] = ()) -> bool | None:
    """Variables before it, its words, and what it does."""
    parts = [child for child in node.named_children if child.type != "comment"]
    given = [child for child in parts if child.type == "variable_assignment"]
    files = [*(child for child in parts if child.type == "file_redirect"), *redirects]
    rest = [child for child in parts if child.type not in _OF_ITS_OWN]
    words = [word for child in rest for word in expand_words(frame, child)] + _behind_redirects(frame, files)
    before, stdin = dict(frame.state.variables), frame.stdin
    told = next((child for child in parts if child.type == "herestring_redirect"), None)
    if told is not None:
        frame.stdin = expand_text(frame, told.named_children[0]) + "\n"
    for one in given:
        assign(frame, one, export=bool(words))
    if not words:
        return True
    status = _called(frame, words, frame.source(rest[0]) if rest else frame.source(node))
    if told is not None:
        frame.stdin = stdin
    for one in given:  # `A=1 read B` leaves B
        name = frame.text(one.child_by_field_name("name"))
        frame.state.variables.pop(name, None)
        if name in before:
            frame.state.variables[name] = before[name]
    return status


def _behind_redirects(frame: ScriptFrame, redirects: Sequence[Any]) -> list[str]:
    """Words that stand behind a redirection are arguments all the same; ``<your_folder>`` is a place to fill in."""
    words: list[str] = []
    filled = False
    for one, following in pairwise([*redirects, None]):
        places = _destinations(one)
        is_first = not filled
        filled = following is not None and frame.text(one).startswith("<") and one.end_byte == following.start_byte
        if filled:
            written = frame.text(one) + ">"
            what = say("{text} is a placeholder, which the shell takes for redirections", text=written)
            frame.session.note(what, frame.source(one))
            words.append(written)
        else:
            words += [word for place in places[is_first:] for word in expand_words(frame, place)]
    return words


def _called(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    name = words[0]
    if name in frame.state.functions:
        return _function(frame, words, source)
    if name == "eval":
        return _eval(frame, " ".join(words[1:]), source)
    if name in ("source", "."):
        return _source(frame, words[1:], source)
    own = builtin(words)
    if own is not None:
        frame.at = source
        return own(frame, words[1:])
    frame.say_output(None)
    frame.session.touched.update(frame.state.place(word) for word in words[1:] if is_known(word) and word[:1] != "-")
    frame.session.commands.append(StartedCommand(tuple(words), frame.state.copy(), source, frame.stdin))
    return None


def _function(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    function = frame.state.functions[words[0]]
    if frame.state.depth >= MAX_DEPTH:
        frame.session.note(say("functions call each other more than {count} levels deep", count=MAX_DEPTH), source)
        return None
    kept = frame.state.arguments
    frame.state.arguments = words[1:]
    inner = ScriptFrame(frame.session, frame.state, function.file, function.code, frame.run, frame.stdin, frame.output)
    frame.state.depth += 1
    status = frame.run(inner, function.body)
    frame.state.depth -= 1
    _returned(frame, kept)
    return status


def _returned(frame: ScriptFrame, arguments: list[str]) -> None:
    frame.state.arguments = arguments
    frame.state.ended = "" if frame.state.ended == "return" else frame.state.ended


def _eval(frame: ScriptFrame, text: str, source: Source) -> bool | None:
    if not is_known(text.partition(" ")[0]):
        written = frame.session.parts.as_written(text)
        frame.session.note(say("eval of a text known only at run time: {text}", text=written), source)
    return run_script(frame.session, frame.state, frame.run, text, source)


def _source(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    if not words:
        return False
    path = frame.state.place(words[0]) if is_known(words[0]) else words[0]
    text = frame.session.read(path)
    if text is None:
        written = frame.session.parts.as_written(words[0])
        frame.session.note(say("{path} is sourced but cannot be read", path=written), source)
        return None
    kept = frame.state.arguments
    frame.state.arguments = words[1:] or kept
    done = run_script(frame.session, frame.state, frame.run, text, Source(path))
    _returned(frame, kept)
    return done


def assign(frame: ScriptFrame, node: Any, *, export: bool = False) -> None:
    """``A=b``, ``A+=b``, ``A=(b c)``, ``A[0]=b``."""
    target, held = node.child_by_field_name("name"), node.child_by_field_name("value")
    if target.type == "subscript":
        frame.state.assign(frame.text(target.named_children[0]), [frame.unknown(node)], frame.source(node))
        return
    name = frame.text(target)
    before = frame.state.value(name) if any(child.type == "+=" for child in node.children) else None
    frame.assigning = name
    value: str | list[str]
    if held is not None and held.type == "array":
        words = [word for one in held.named_children if one.type != "comment" for word in expand_words(frame, one)]
        value = [*([before] if isinstance(before, str) else before or ()), *words]
    else:
        value = (before if isinstance(before, str) else "") + ("" if held is None else expand_text(frame, held))
    frame.assigning = ""
    frame.state.assign(name, value, frame.source(node), export=export)
