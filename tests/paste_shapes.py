"""What happens to a log on its way from a cluster into a chat, an issue or a mail: one function for each.

``SHAPES`` maps a name to a function from the lines of a log to the bytes that end up in the file somebody diagnoses.
No shape adds or takes away a fact, except those in ``LOSSY``, which lose lines, prefixes or the ends of lines, and
those in ``STAMPED``, which add times.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone

from unhang.evidence.logs.lines.timestamps import TimestampReader, year_in

Lines = Sequence[str]
Shape = Callable[[Lines], bytes]

_RANK_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]:? ?")
_WIDE = {ord(narrow): wide for narrow, wide in zip(":,()", "：，（）", strict=True)}


def lines_of(log: bytes) -> list[str]:
    """The lines of a log as text."""
    return [line.rstrip("\r") for line in log.decode("utf-8", "replace").rstrip("\n").split("\n")]


def joined(lines: Lines, *, end: str = "\n", encoding: str = "utf-8") -> bytes:
    return ("".join(line + end for line in lines)).encode(encoding, "replace")


def columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(line: str, width: int) -> list[str]:
    """As terminals break lines: at a column, whatever stands there."""
    pieces, used = [""], 0
    for letter in line:
        if used + columns(letter) > width:
            pieces.append("")
            used = 0
        pieces[-1] += letter
        used += columns(letter)
    return pieces


def at_words(line: str, width: int) -> list[str]:
    """As mails and chats break lines: between words, the indentation kept on the first piece only."""
    return textwrap.wrap(line, width, break_on_hyphens=False, drop_whitespace=True) or [""]


def _each(change: Callable[[str], str]) -> Shape:
    return lambda lines: joined([change(line) for line in lines])


def _broken(how: Callable[[str, int], list[str]], width: int) -> Shape:
    return lambda lines: joined([piece for line in lines for piece in how(line, width)])


def _timestamp(year: int) -> float:
    return datetime(year, 11, 21, 10, 30, tzinfo=timezone.utc).timestamp()


def _dated(lines: Lines) -> Iterator[tuple[datetime, str]]:
    """Each line with the time at which a collector received it: its own, else that of the line before."""
    year = year_in("\n".join(lines)) or 2026
    clock = TimestampReader(year=year)
    times = [clock.time_of(_RANK_PREFIX.sub("", line)) for line in lines]
    first = next((time_s for time_s in times if time_s is not None), _timestamp(year))
    known = first - 1_900  # what has no time of its own was printed long before
    for number, (time_s, line) in enumerate(zip(times, lines, strict=True)):
        known = known if time_s is None else time_s
        yield datetime.fromtimestamp(known + number / 10_000, timezone.utc), line


def _stamped(form: str) -> Shape:
    """``form`` with the places ``{iso}``, ``{clock}``, ``{syslog}`` and ``{line}``."""

    def shape(lines: Lines) -> bytes:
        return joined(
            [
                form.format(
                    iso=time.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z",
                    space=time.strftime("%Y-%m-%d %H:%M:%S"),
                    clock=time.strftime("%H:%M:%S.%f")[:-3],
                    syslog=time.strftime("%b %e %H:%M:%S"),
                    line=line,
                )
                for time, line in _dated(lines)
            ]
        )

    return shape


def _docker_json(lines: Lines) -> bytes:
    return joined(
        [
            json.dumps({"log": line + "\n", "stream": "stderr", "time": time.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"})
            for time, line in _dated(lines)
        ]
    )


def _collector_json(lines: Lines) -> bytes:
    return joined(
        [
            json.dumps({"@timestamp": time.isoformat(), "message": line, "kubernetes": {"pod_name": "train-worker-0"}})
            for time, line in _dated(lines)
        ]
    )


def _coloured(lines: Lines) -> bytes:
    colours = ("\x1b[31m", "\x1b[1;33m", "\x1b[0;36m")
    return joined([f"{colours[number % 3]}{line}\x1b[0m" for number, line in enumerate(lines)])


def _colours_without_escape(lines: Lines) -> bytes:
    return _coloured(lines).replace(b"\x1b", b"")


def _smart_quotes(line: str) -> str:
    line = re.sub(r'"([^"]*)"', "\u201c\\1\u201d", line)
    return re.sub(r"'([^']*)'", "\u2018\\1\u2019", line)


def _word_dashes(line: str) -> str:
    return line.replace("--", "\u2014").replace(" - ", " \u2013 ").replace("...", "\u2026")


def _page(lines: Lines) -> bytes:
    """The source of a page: somebody copied the markup with it."""
    body = "\n".join(f'<span class="line">{html.escape(line)}</span>' for line in lines)
    return f'<pre class="highlight"><code>{body}\n</code></pre>\n'.encode()


def _page_with_breaks(lines: Lines) -> bytes:
    return ("<p>" + "<br/>\n".join(html.escape(line) for line in lines) + "</p>\n").encode()


def _markdown_table(lines: Lines) -> bytes:
    rows = [f"| {number} | {line.replace('|', chr(92) + '|')} |" for number, line in enumerate(lines, 1)]
    return joined(["| # | log |", "|---|---|", *rows])


def _sheet_copied(lines: Lines) -> bytes:
    """Cells of a sheet (Feishu, DingTalk, Excel): tabs between them, quotes around those that hold quotes."""
    cells = ['"' + line.replace('"', '""') + '"' if '"' in line else line for line in lines]
    return joined([f"{number}\t{cell}" for number, cell in enumerate(cells, 1)])


def _asked_about(lines: Lines) -> bytes:
    said = ["大佬们，8 卡训练跑到一半就卡住了，日志如下：", "```", *lines, "```", "有人遇到过吗？谢谢🙏"]
    return joined(said)


def _gb18030(lines: Lines) -> bytes:
    return joined(["求助：多卡训练卡死，报错如下", *lines, "求大神指点"], end="\r\n", encoding="gb18030")


def _three_lines(lines: Lines) -> bytes:
    """The three loudest lines, as people choose them."""
    loud = re.compile(r"error|timeout|timed out|abort|fail|killed", re.IGNORECASE)
    chosen = [line for line in lines if loud.search(line)][:3]
    return joined(chosen or list(lines[-3:]))


def _photographed(lines: Lines) -> bytes:
    """A screenful: lines end where the screen did."""
    return joined([line[:160] for line in lines[-50:]])


SHAPES: dict[str, Shape] = {
    **{f"cut at {width}": _broken(cut, width) for width in (40, 56, 64, 80, 100, 120)},
    **{f"words at {width}": _broken(at_words, width) for width in (40, 56, 72, 80, 100, 120)},
    "entities": _each(html.escape),
    "page": _page,
    "page with breaks": _page_with_breaks,
    "quoted": _each(lambda line: "> " + line),
    "quoted as entities": _each(lambda line: "&gt; " + html.escape(line)),
    "asked about in a fence": _asked_about,
    "double spaced": lambda lines: joined(lines, end="\n\n"),
    "windows": lambda lines: joined(lines, end="\r\n"),
    "gb18030": _gb18030,
    "utf-16": lambda lines: joined(lines, end="\r\n", encoding="utf-16"),
    "kubectl timestamps": _stamped("{iso} {line}"),
    "containerd": _stamped("{iso} stderr F {line}"),
    "web viewer": _stamped("{space}\t{line}"),
    "wandb": _stamped("{space} {line}"),
    "clock alone": _stamped("[{clock}] {line}"),
    "journal": _stamped("{syslog} node-17 python3[40213]: {line}"),
    "docker json": _docker_json,
    "collector json": _collector_json,
    "colours": _coloured,
    "colours without escape": _colours_without_escape,
    "smart quotes": _each(_smart_quotes),
    "full width": _each(lambda line: line.translate(_WIDE)),
    "word dashes": _each(_word_dashes),
    "hard spaces": _each(lambda line: line.replace(" ", "\u00a0")),
    "spaces for tabs": _each(lambda line: line.expandtabs(8)),
    "markdown table": _markdown_table,
    "sheet": _sheet_copied,
    "numbered": lambda lines: joined([f"{number:4d} | {line}" for number, line in enumerate(lines, 1)]),
    "bullets": _each(lambda line: "- " + line),
    "indented": _each(lambda line: "    " + line),
    "indentation lost": _each(str.strip),
    "ranks lost": _each(lambda line: _RANK_PREFIX.sub("", line)),
    "three lines": _three_lines,
    "screenful": _photographed,
}
LOSSY = frozenset(("indentation lost", "ranks lost", "three lines", "screenful"))
STAMPED = frozenset(
    (
        *("kubectl timestamps", "containerd", "web viewer", "wandb", "clock alone", "journal"),
        *("docker json", "collector json"),
    )
)
"""These put a time before each line, also before those that had none: who was first may be told by it."""
