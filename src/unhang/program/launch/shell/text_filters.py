"""Programs that scripts use to make words out of words, and what they print: only those that need nothing but text."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from unhang.knowledge import numbers
from unhang.program.launch.follow_session import ScriptFrame
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known

MAX_NUMBERS = 1024


def filter_output(frame: ScriptFrame, words: Sequence[str]) -> str | None:
    """What a program prints; None where it is none of these, or its output is unknown."""
    known = _BY_NAME.get(posixpath.basename(words[0]))
    return None if known is None else known(frame, list(words[1:]))


def is_filter(name: str) -> bool:
    """Such a program: it starts nothing."""
    return posixpath.basename(name) in _BY_NAME


def _echo(frame: ScriptFrame, words: list[str]) -> str:  # noqa: ARG001 - every one of these is called alike
    end = "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        end = "" if "n" in words[0] else end
        words = words[1:]
    return " ".join(words) + end


def _printf(frame: ScriptFrame, words: list[str]) -> str | None:  # noqa: ARG001
    if not words:
        return None
    form, values = words[0].replace("\\n", "\n").replace("\\t", "\t"), words[1:]
    places = re.findall(r"%[sd]", form)
    if "%" in form.replace("%s", "").replace("%d", "") or not places:
        return form if "%" not in form else None
    count = len(places)
    rounds = [values[at : at + count] for at in range(0, len(values), count)] or [[""] * count]
    return "".join(_filled(form, one) for one in rounds)


def _filled(form: str, values: list[str]) -> str:
    rest = iter(values)
    return re.sub(r"%[sd]", lambda _: next(rest, ""), form)


def _pwd(frame: ScriptFrame, words: list[str]) -> str:  # noqa: ARG001
    folder = frame.state.folder
    return f"{frame.session.absolute(folder) if is_known(folder) else folder}\n"


def _dirname(frame: ScriptFrame, words: list[str]) -> str | None:  # noqa: ARG001
    return f"{posixpath.dirname(words[-1]) or '.'}\n" if words and is_known(words[-1]) else None


def _basename(frame: ScriptFrame, words: list[str]) -> str | None:  # noqa: ARG001
    if not words or not all(map(is_known, words)):
        return None
    name = posixpath.basename(words[0].rstrip("/"))
    return f"{name.removesuffix(words[1]) if len(words) > 1 else name}\n"


def _realpath(frame: ScriptFrame, words: list[str]) -> str | None:
    paths = [word for word in words if not word.startswith("-")]
    return (
        f"{frame.session.absolute(frame.state.place(paths[0]))}\n" if len(paths) == 1 and is_known(paths[0]) else None
    )


def _cat(frame: ScriptFrame, words: list[str]) -> str | None:
    if not words:
        return frame.stdin
    texts = [frame.session.read(frame.state.place(word)) for word in words]
    return None if None in texts else "".join(text or "" for text in texts)


def _seq(frame: ScriptFrame, words: list[str]) -> str | None:  # noqa: ARG001
    ends = [numbers.integer(word) for word in words]
    if not 1 <= len(ends) <= 3 or None in ends:
        return None
    values = [end for end in ends if end is not None]
    first, step, last = (1, 1, values[0]) if len(values) == 1 else (values[0], 1, values[1])
    if len(values) == 3:
        first, step, last = values
    if not step or abs((last - first) // step) > MAX_NUMBERS:
        return None
    return "".join(f"{number}\n" for number in range(first, last + (1 if step > 0 else -1), step))


def _wc(frame: ScriptFrame, words: list[str]) -> str | None:
    text = frame.stdin
    if text is None or not is_known(text) or len(words) != 1:
        return None
    counts = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text.encode())}
    return f"{counts[words[0]]}\n" if words[0] in counts else None


def _tr(frame: ScriptFrame, words: list[str]) -> str | None:
    text = frame.stdin
    if text is None or not is_known(text):
        return None
    sets = [_characters(word) for word in words if not word.startswith("-")]
    if None in sets or not sets:
        return None
    if words[0] == "-d":
        return "".join(one for one in text if one not in (sets[0] or ""))
    if words[0].startswith("-") or len(sets) != 2 or not sets[1]:
        return None
    into = sets[1]
    table = {ord(one): into[min(at, len(into) - 1)] for at, one in enumerate(sets[0] or "")}
    return text.translate(table)


def _characters(word: str) -> str | None:
    word = word.replace("\\n", "\n").replace("\\t", "\t").replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z")
    word = word.replace("[:space:]", " \t\n")
    if "[:" in word or "\\" in word:
        return None
    return re.sub(r"(.)-(.)", lambda r: "".join(map(chr, range(ord(r[1]), ord(r[2]) + 1))), word)


def _head(frame: ScriptFrame, words: list[str]) -> str | None:
    return _lines(frame, words, lambda lines, count: lines[:count])


def _tail(frame: ScriptFrame, words: list[str]) -> str | None:
    return _lines(frame, words, lambda lines, count: lines[-count:])


def _lines(frame: ScriptFrame, words: list[str], take: Callable[[list[str], int], list[str]]) -> str | None:
    found = re.fullmatch(r"-n? ?(\d+)", " ".join(words)) if words else None
    if frame.stdin is None or not is_known(frame.stdin) or (words and not found):
        return None
    return "".join(take(frame.stdin.splitlines(keepends=True), int(found[1]) if found else 10))


def _awk(frame: ScriptFrame, words: list[str]) -> str | None:
    """Counts fields, or prints one: ``awk -F',' '{print NF}'``."""
    apart, rest = None, words
    if rest and rest[0].startswith("-F"):
        apart, rest = (rest[0][2:], rest[1:]) if rest[0][2:] else (rest[1] if len(rest) > 1 else "", rest[2:])
    found = re.fullmatch(r"\{ *print +(NF|\$(\d+)|\$NF);? *\}", rest[0]) if len(rest) == 1 else None
    if found is None or frame.stdin is None or not is_known(frame.stdin) or apart == "":
        return None
    lines = []
    for line in frame.stdin.splitlines():
        parts = line.split(apart)
        at = int(found[2]) - 1 if found[2] else -1
        lines.append(str(len(parts)) if found[1] == "NF" else parts[at] if -1 <= at < len(parts) else "")
    return "".join(f"{line}\n" for line in lines)


def _expr(frame: ScriptFrame, words: list[str]) -> str | None:
    number = (
        evaluate_arithmetic(" ".join(words).replace("\\*", "*"), frame.state) if all(map(is_known, words)) else None
    )
    return None if number is None else f"{number}\n"


def _cut(frame: ScriptFrame, words: list[str]) -> str | None:
    found = re.fullmatch(r"-d ?(\S) -f ?(\d+)", " ".join(words))
    if found is None or frame.stdin is None or not is_known(frame.stdin):
        return None
    rows = [line.split(found[1]) for line in frame.stdin.splitlines()]
    return "".join(f"{row[int(found[2]) - 1] if int(found[2]) <= len(row) else ''}\n" for row in rows)


_BY_NAME: dict[str, Callable[[ScriptFrame, list[str]], str | None]] = {
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": _realpath,
    "cat": _cat,
    "seq": _seq,
    "wc": _wc,
    "tr": _tr,
    "head": _head,
    "tail": _tail,
    "awk": _awk,
    "cut": _cut,
    "expr": _expr,
}
