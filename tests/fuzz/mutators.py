"""What happens to evidence on its way to us, and what somebody might do to it on purpose.

A mutator takes a random generator and bytes. :func:`mutated` chooses some for one file by what it holds. Damage neither
tells a new story nor repairs one: a troubled job stays troubled, and no other cause becomes true. A forgery
(:data:`FORGERIES`, :func:`foreign` lines, another program) may; then any cause may be true.
"""

from __future__ import annotations

import html
import json
import pickle
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import msgspec

from tests.paste_shapes import SHAPES, lines_of
from unhang.evidence.pickles.safe_unpickle import read_plain
from unhang.knowledge.messages import load_messages

Mutator = Callable[[Random, bytes], bytes]
NUMBER = re.compile(rb"\d+")
EXTREMES = (
    *(b"-1", b"0", b"255", b"65536", b"1048576", b"2147483648", b"4294967295", b"9007199254740993"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551615", b"1e999", b"nan", b"-0", b"0x7f"),
    *(b"9" * 20, b"9" * 400, b"9" * 5000, "٣".encode(), "²".encode(), b"1.7976931348623157e308", b"315360000000000"),
)
ESCAPES = (
    *(b"\x1b[2J", b"\x1b]0;owned\x07", b"\x1b[1;32m", b"\x07", b"\x08\x08\x08", b"\x00", b"\x0c", b"\x7f", b"\x9b31m"),
    *("\u202e".encode(), "\u2028".encode(), "\x85".encode(), "\u200b".encode(), b"\xff\xfe", b"\xed\xa0\x80"),
)
MARKUP = (
    *(b"<script>alert(1)</script>", b"</script><img src=x onerror=alert(1)>", b"[x](http://evil.example/)"),
    *(b"![x](http://evil.example/i.png)", b"@everyone", b"`````", b"https://evil.example/", b"{{7*7}}", b"{% x %}"),
    *(b"[bold red]x[/]", b"<!--", b"]]>", b"javascript:alert(1)", b"{name}", b"%s%n", b"$(touch owned)", b"#1", b"|x|"),
)


# text


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")


def _some(rng: Random, count: int) -> tuple[int, int]:
    start = rng.randrange(max(1, count))
    return start, min(count, start + 1 + int(rng.expovariate(0.3)))


def delete_lines(rng: Random, data: bytes) -> bytes:
    lines = _lines(data)
    start, stop = _some(rng, len(lines))
    return b"\n".join(lines[:start] + lines[stop:])


def duplicate_lines(rng: Random, data: bytes) -> bytes:
    lines = _lines(data)
    start, stop = _some(rng, len(lines))
    return b"\n".join(lines[:stop] + lines[start:stop] * rng.choice((1, 1, 2, 50)) + lines[stop:])


def move_lines(rng: Random, data: bytes) -> bytes:
    lines = _lines(data)
    start, stop = _some(rng, len(lines))
    block, rest = lines[start:stop], lines[:start] + lines[stop:]
    at = rng.randrange(len(rest) + 1)
    return b"\n".join(rest[:at] + block + rest[at:])


def join_lines(rng: Random, data: bytes) -> bytes:
    lines = _lines(data)
    start, stop = _some(rng, len(lines))
    return b"\n".join(
        [*lines[:start], rng.choice((b"", b" ", b"\r")).join(lines[start : stop + 1]), *lines[stop + 1 :]]
    )


def wrap_lines(rng: Random, data: bytes) -> bytes:
    width = rng.choice((20, 60, 80, 120))
    return b"\n".join(line[at : at + width] for line in _lines(data) for at in range(0, max(1, len(line)), width))


def truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def lose_start(rng: Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def flip_bytes(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def extreme_number(rng: Random, data: bytes) -> bytes:
    places = [found.span() for found in NUMBER.finditer(data)]
    if not places:
        return data
    start, stop = rng.choice(places)
    if rng.random() < 0.2:  # everywhere the same number stands
        return re.sub(rb"(?<!\d)%s(?!\d)" % data[start:stop], lambda _: rng.choice(EXTREMES), data, count=40)
    return data[:start] + rng.choice(EXTREMES) + data[stop:]


def insert(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(ESCAPES + MARKUP) + data[at:]


def into_words(rng: Random, data: bytes) -> bytes:
    """A word of the text becomes markup: names of files, functions, exceptions and hosts reach every output."""
    words = [found.span() for found in re.finditer(rb"[A-Za-z_]{4,}", data[:65_536])]
    if not words:
        return insert(rng, data)
    start, stop = rng.choice(words)
    return data[:start] + rng.choice(MARKUP + ESCAPES) + data[stop:]


def pasted(rng: Random, data: bytes) -> bytes:
    return rng.choice(sorted(SHAPES.items()))[1](lines_of(data))


def prefixed(rng: Random, data: bytes) -> bytes:
    prefix = rng.choice(
        (
            *(b"2026-11-22T10:00:00.123456789Z ", b"%d: ", b"(Worker pid=%d, ip=10.0.0.7) ", b"[pod/job-%d/main] "),
            *(b"[default%d]:", b"[1,%d]<stdout>:", b"node%d: ", b"| ", b"> ", b"Nov 22 10:00:00 n1 job[%d]: "),
        )
    )
    number = rng.randrange(8)
    return b"\n".join(prefix.replace(b"%d", b"%d" % number) + line for line in _lines(data))


def renamed_rank(rng: Random, data: bytes) -> bytes:
    old = rng.randrange(8)
    new = rng.choice((b"7", b"12", b"63", b"", b"1048575", b"-1"))
    return re.sub(rb"(?i)(rank[ _=:\[]{0,2})%d\b" % old, lambda found: found[1] + new, data)


def other_encoding(rng: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    name = rng.choice(("utf-16", "utf-16-be", "utf-8-sig", "latin-1", "gb18030", "cp1252", "utf-32", "utf-7"))
    return text.encode(name, "replace")


def crlf(rng: Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r", "\u2028".encode(), b"\n\n")))


def nuls(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes(rng.choice((1, 4, 4096, 70_000))) + data[at:]


def long_line(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return (
        data[:at]
        + rng.choice((b"a", b"[", b"(", b" ", b"0", b"(rank 1) ", b'{"a":')) * rng.choice((500, 9000))
        + data[at:]
    )


def escaped_html(rng: Random, data: bytes) -> bytes:
    return html.escape(data.decode("utf-8", "replace")).encode()


TEXT: tuple[Mutator, ...] = (
    *(delete_lines, duplicate_lines, move_lines, join_lines, wrap_lines, truncate, lose_start, flip_bytes),
    *(extreme_number, extreme_number, extreme_number, insert, into_words, pasted, prefixed, renamed_rank),
    *(other_encoding, crlf, nuls, long_line, escaped_html),
)


@cache
def known_lines() -> tuple[bytes, ...]:
    """Every message that is known, as it was once seen."""
    return tuple(row.example.encode() for row in load_messages())


def foreign(rng: Random, data: bytes) -> bytes:
    """Lines of another job, some of them with impossible numbers."""
    lines = _lines(data)
    for _ in range(rng.choice((1, 2, 6))):
        line = rng.choice(known_lines())
        for _ in range(rng.randrange(3)):
            line = extreme_number(rng, line)
        lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


# JSON


def _odd_value(rng: Random) -> Any:
    return rng.choice(
        (
            *(None, True, [], {}, "", -1, 0, 1.5, -0.0, 1e308, 1 << 20, 1 << 31, 1 << 53, 1 << 63, 10**30, 10**400),
            *(
                "x" * 5000,
                "\x1b[2J\x07",
                "<script>alert(1)</script>",
                "../../etc/passwd",
                "٣",
                [[[[[[]]]]]],
                {"": {"": 0}},
            ),
            *(float("nan"), float("inf"), [0] * 300, "2026-11-22", "\ud800", "default_pg", [1, 2, 3]),
        )
    )


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key or index) of everything inside ``value``."""
    places: list[tuple[Any, Any]] = []
    todo = [value]
    while todo and len(places) < 20_000:
        here = todo.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        places += [(here, key) for key in keys]
        todo += [here[key] for key in keys if isinstance(here[key], dict | list)]
    return places


def _changed(rng: Random, value: Any) -> Any:
    """``value`` with some things in it of another type, gone, twice or a little more."""
    places = _places(value)
    if not places:
        return _odd_value(rng)
    for here, key in rng.choices(places, k=rng.choice((1, 1, 2, 5))):
        if not (key in here if isinstance(here, dict) else key < len(here)):
            continue  # what was changed before took it away
        how = rng.random()
        if how < 0.65:
            here[key] = _odd_value(rng)
        elif how < 0.8:
            del here[key]
        elif isinstance(here, list):
            here.append(here[key])
        elif isinstance(here[key], int):
            here[key] += rng.choice((1, -1, 1 << 33))
    return value


def odd_json(rng: Random, data: bytes) -> bytes:
    """A value changed; of several lines of JSON in one of them."""
    lines = _lines(data) if data.count(b"\n{") > 2 else [data]
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(_changed(rng, json.loads(lines[at]))).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return flip_bytes(rng, data)
    return b"\n".join(lines)


def odd_message(rng: Random, data: bytes) -> bytes:
    """As :func:`odd_json`, of MessagePack."""
    try:
        return msgspec.msgpack.encode(_changed(rng, msgspec.msgpack.decode(data)))
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return flip_bytes(rng, data)


JSON: tuple[Mutator, ...] = (
    *(odd_json,) * 6,
    truncate,
    flip_bytes,
    extreme_number,
    insert,
    lose_start,
    nuls,
    other_encoding,
)


# pickles


class Executes:
    """A pickle of it would leave a file behind if anything in it ran."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, ("touch /tmp/unhang-fuzz-was-here",)


def odd_pickle(rng: Random, data: bytes) -> bytes:
    """As another writer would pickle it, with a value of another type."""
    try:
        value = read_plain(data).value  # Python's own takes any length it is told, and complains on our terminal
        if rng.random() < 0.8:
            value = _changed(rng, value)
        if rng.random() < 0.15:
            value = {"entries": Executes(), "x": value} if rng.random() < 0.5 else [value, Executes()]
        return pickle.dumps(value, rng.randrange(6))
    except Exception:  # noqa: BLE001 - a pickle that was changed may be none, and its value may not be picklable
        return odd_opcodes(rng, data)


def odd_opcodes(rng: Random, data: bytes) -> bytes:
    """Opcodes replaced, left out, doubled."""
    places: list[int] = []
    try:
        for opcode, _, at in pickletools.genops(data):
            places.append(at or 0)
            if opcode.code == "." or len(places) > 5000:
                break
    except Exception:  # noqa: BLE001 - as above
        places = places or [0]
    changed = bytearray(data)
    every = [op.code.encode("latin-1") for op in pickletools.opcodes]
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.choice(places)
        how = rng.random()
        if how < 0.6:
            changed[at : at + 1] = rng.choice(every)
        elif how < 0.8:
            changed[at:at] = rng.choice((*every, b"cos\nsystem\n(S'touch owned'\ntR", b"\x8c\x02os\x8c\x06system\x93"))
        else:
            changed[at : at + 1] = b""
    return bytes(changed)


PICKLE: tuple[Mutator, ...] = (
    odd_pickle,
    odd_pickle,
    odd_opcodes,
    odd_opcodes,
    truncate,
    flip_bytes,
    lose_start,
    insert,
)


def mutators_for(data: bytes) -> tuple[Mutator, ...]:
    """Those that matter for what ``data`` is."""
    if data[:1] == b"\x80":
        return PICKLE
    if data[:1] in (b"{", b"["):
        return JSON
    return TEXT


FORGERIES = frozenset((odd_json, odd_pickle, odd_opcodes))
"""These put another value in the place of one: what comes of it may be the whole record of another job."""


SPELLING = frozenset((flip_bytes, insert, into_words, nuls))
"""These put other letters into words."""


@dataclass(frozen=True, slots=True)
class Mutated:
    """``data`` now. ``forged``: it may tell another story; ``misspelt``: a name in it may be another name."""

    data: bytes
    forged: bool = False
    misspelt: bool = False


def mutated(rng: Random, data: bytes, times: int) -> Mutated:
    """``data`` changed ``times`` times."""
    used: list[tuple[Mutator, bool]] = []
    for _ in range(times):
        mutator = rng.choice(mutators_for(data))
        used.append((mutator, data[:1] == b"\x80"))
        data = mutator(rng, data)
    flipped = [pickled for mutator, pickled in used if mutator in SPELLING]
    # a pickle carries no checksum: a byte of a number that changed makes another number
    forged = any(mutator in FORGERIES or (mutator is flip_bytes and pickled) for mutator, pickled in used)
    return Mutated(data, forged, bool(flipped))
