"""What launchers, schedulers and containers put in front of a line, and who spoke it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from unhang.evidence.logs.lines.progress import find_step
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

_HEAD_TEXT = (
    r"(?:\[[^\[\]\n]{1,40}\]|\([^()\n]{1,40}\)|<[^<>\n]{1,40}>|\{[^{}\n]{1,40}\}"
    r"|[A-Za-z][\w.-]{0,30}?[ #=-]?\d{1,10}(?= ?[:|>](?!\w)| +(?:Traceback| File \")))(?: ?[:|>](?!\w))? ?"
)
_HEAD = re.compile(_HEAD_TEXT)
_NUMBER = re.compile(r"\d+")
_ALWAYS_BARE = re.compile(rf"(?:{_HEAD_TEXT})*(?:Traceback \(most recent call last\)| {{2,}}File \")")
"""Lines of tracebacks, behind more labels: the interpreter prints them, no logger writes anything before them."""
_MEANING = (
    ("local", re.compile(r"local[_ -]?rank\W{0,3}$", re.IGNORECASE)),
    ("rank", re.compile(r"(?:^|[^a-z])(?:global[_ -]?)?rank\W{0,3}$", re.IGNORECASE)),
    ("pid", re.compile(r"(?:^|[^a-z])p(?:id\W{0,3})?$", re.IGNORECASE)),
    ("label", re.compile(r"^\W$")),
)
"""What a number is, by the word before it; one without any word is a launcher's number of a rank or a node."""
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Label:
    """One learned way of labelling. ``pattern`` has the groups of ``Speaker``; ``whole`` says that all is labelled."""

    pattern: re.Pattern[str]
    whole: bool
    """Cut it off: what it stands before is not its writer's."""


def labels_in(lines: Sequence[str]) -> tuple[Label, ...]:
    """The ways of labelling that ``lines`` show, outermost first."""
    found: list[Label] = []
    for _ in range(_ROUNDS):
        label = _label_of(lines)
        if label is None:
            break
        found.append(label)
        lines = [line[match.end() :] if (match := label.pattern.match(line)) is not None else line for line in lines]
    return tuple(found)


def _label_of(lines: Sequence[str]) -> Label | None:
    shapes: dict[str, list[tuple[int, re.Match[str]]]] = defaultdict(list)
    for number, line in enumerate(lines):
        if (head := _HEAD.match(line)) is not None and _NUMBER.search(head[0]) is not None:
            shapes[_NUMBER.sub("#", head[0].rstrip())].append((number, head))
    for shape, heads in sorted(shapes.items(), key=lambda item: -len(item[1])):
        if shape.count("#") > 1:  # a time, a place in a file, a fraction
            continue
        whole = any(_ALWAYS_BARE.match(head.string, head.end()) for _, head in heads)
        if whole or (len(heads) * 2 > len(lines) and _take_turns(heads) and not _counts(heads)):
            return _label(shape, whole)
    return None


def _take_turns(heads: Iterable[tuple[int, re.Match[str]]]) -> bool:
    """Most values speak between the first and the last line of most others."""
    spans: dict[str, list[int]] = {}
    for number, head in heads:
        span = spans.setdefault(head[0].rstrip(), [number, number])
        span[1] = number
    if len(spans) < 2:
        return False
    both = [a[0] < b[1] and b[0] < a[1] for a in spans.values() for b in spans.values() if a is not b]
    return sum(both) * 2 > len(both)


def _counts(heads: Iterable[tuple[int, re.Match[str]]]) -> bool:
    """The number is that of a step: without it no step is left."""
    return any(_step(head.string) != _step(head.string[head.end() :]) for _, head in heads)


def _step(text: str) -> int | None:
    step = find_step(text)
    return step.number if step is not None else None


def _label(shape: str, whole: bool) -> Label:
    before, _, after = shape.partition("#")
    meaning = next((name for name, words in _MEANING if words.search(before)), None)
    number = r"\d{1,10}"
    if meaning is None:
        pattern = rf"(?P<name>{re.escape(before)}{number}{re.escape(after)}) ?"
    else:
        pattern = rf"{re.escape(before)}(?P<{meaning}>{number}){re.escape(after)} ?"
    return Label(re.compile(pattern), whole or meaning == "label")


_SECONDS = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_STAMPS = (
    late_pattern(
        rf"\[?(?P<time>20\d\d[-/]\d\d[-/]\d\d[ T]{_SECONDS}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)\]?"
        r"(?: [|│] |[|│]|\t|: | (?:std(?:out|err)(?:: | [FP] ))?|$)"
    ),
    late_pattern(
        rf"(?P<time>[A-Z][a-z][a-z] [ \d]\d {_SECONDS}) (?P<host>[\w.-]{{1,80}}) "
        r"[\w./@:-]{1,64}\[\d{1,10}\]:(?: |$)"
    ),
    late_pattern(rf"\[?{_SECONDS}\]?(?: [|│] |[|│]|\t| |$)"),
)
_OWN_BEGINNING = late_pattern(
    r"\[rank\d|\[default\d|\[[EWIF] ?\d{0,4}[ \d]|Traceback \(most|  File \"|\w+Error: |[EWIF]\d{4} \d\d:"
    r"|[\w.-]+:\d+:\d+ \[|\d{1,5}: |[A-Za-z][\w-]*\d[\w.-]*: |\+ \w|.{0,40}20\d\d[-/]\d\d[-/]\d\d[ T_]\d\d:"
)
"""How lines begin in front of which their program writes no time (or its own)."""


def collector_timestamp_pattern(lines: Sequence[str]) -> re.Pattern[str] | None:
    """The pattern of the stamp in front of nearly all ``lines``, also of those that no logger writes; None without."""
    for stamp in _STAMPS:
        found = [match for line in lines if (match := stamp.match(line)) is not None]
        if not found or len(found) * 10 < len(lines) * 9:
            continue
        if any(_OWN_BEGINNING.match(match.string, match.end()) for match in found):
            return stamp
    return None


_ANSI = late_pattern(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|\x1b"
    r"|(?<![\w\]])\[(?:\d{1,3};){0,4}\d{1,3}m|(?<=\w)\[0?m"
)
"""Colours, also those that lost their escape character on the way."""
_KUBE_TIME = late_pattern(
    r"^(?P<time>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (?:std(?:out|err) [FP] )?"
)
_KUBE_POD = late_pattern(r"^\[pod/(?P<name>(?P<host>[^/\]]+))/[^\]]*\] ?")
_COMPOSE = late_pattern(r"^(?P<name>(?P<host>[\w.-]{1,64}?)) {1,20}\| ")
_TEE = late_pattern(r"^\[(?P<role>[A-Za-z_][\w-]*?)(?<!\d)(?P<local>\d{1,6})\]: ?")
_RANK = late_pattern(r"^\[rank(?P<rank>\d{1,6})\](?!:? ?\[[EWIF][ \d]):? ?")
_MPI = late_pattern(
    r"^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d 20\d\d)?"
    r"\[(?:[\w.@-]{1,80},)?(?P<label>\d{1,6})\](?:\[[\w.:-]{1,80}\])?<std(?:out|err|diag)> ?:? ?"
)
"""Open MPI's and PRRTE's ``--tag-output`` in its forms, with ``--timestamp-output`` before it or not."""
_LABEL = late_pattern(r"^ {0,5}(?P<label>\d{1,6}):(?!\d\d:\d\d\b) ?")
_RAY = late_pattern(
    r"^\((?P<program>[\w.<>:/@+-][\w.<>:/@+ -]{0,80}?(?:\([^()\n]{0,60}\))?)(?:[\[ ]rank=(?P<rank>\d+)\]?)?"
    r" pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:-]+))?\)"
    r"(?: \[repeated [^\]]*\])? ?"
)
"""Ray's, and what vLLM's processes write before their lines."""
_PARALLEL = late_pattern(
    r"^\[(?P<time>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?) "
    r"(?P<program>(?:(?:ATTN_|MOE_)?(?:DP|PP|TP|EP|CP)\d{1,5} ?)+)\] ?"
)
"""SGLang's: where a scheduler stands in its engine."""
_LOGGED_TRACEBACK = late_pattern(
    r"^(?:ERROR|CRITICAL|WARNING) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) \[[\w./]{1,80}\.py:\d{1,6}\] ?"
    r"(?=Traceback \(|  +\S|During handling of|The above exception)"
)
"""vLLM's logger before each line of a traceback; that of the exception could be any other's."""
_HOST = late_pattern(r"^(?P<name>(?P<host>(?=[a-zA-Z0-9]*[\d.-])[A-Za-z][A-Za-z0-9.-]{1,80})): ")
_BARE_RANK = late_pattern(r"^rank[ _-]?(?P<rank>\d{1,6}): ")
_QUOTE = late_pattern(r"^(?:> ?|&gt; ?)+(?=\S)")
_BORDER = late_pattern(r"^\| ?")
_C10D = late_pattern(
    r"(?:\[rank(?P<rank>\d{1,6})\]:)?\[(?P<level>[EWIF]) ?(?:\d{3,4} [\d:.]+ )?"
    r"(?P<file>[\w./-]+\.(?:cpp|hpp|h|cu|cc)):(?P<line>\d+)\]"
)
_ERROR_HEAD = late_pattern(
    r"(?:^|[\[\s])[EF]\d{4} \d\d.\d\d.\d\d|\[E (?:\d{4} [\d:.]+ )?[\w./-]+\.(?:cpp|hpp|h|cu|cc):\d+\]"
)
"""Level, month and day, and the time; before torch 2.1 only level and file."""
_SPOKEN = late_pattern(r"\[(?:rank[:= ]?|Rank[:=])(\d{1,6})\]")
"""A logger's own field; ``[Rank 3]`` is c10d's, and may be the rank in a group."""
_ASCEND = late_pattern(r"\(PID:\d{1,10}, Device:\d{1,3}, RankID:(\d{1,6})\)")
"""torch_npu's; -1 where the process has none."""
_GROUP = late_pattern(
    r"\[PG (?:ID )?(?P<id>\w+)(?: PG GUID (?P<guid>[^\s(\]]+))?(?: ?\((?P<description>[^)]*)\))?"
    r" Rank (?P<group_rank>\d+)\]"
)
_OLD_GROUP = late_pattern(r"\[Rank (?P<group_rank>\d{1,6})\]")
_TC = late_pattern(r"\[TC\]\[rank=(?P<rank>\d+)\]\[name=(?P<name>[^\]]*)\]")
# The host begins where a word does: from within a long word a search would look through its rest again and again.
_NCCL = late_pattern(r"(?<![\w.-])(?P<host>[\w.-]+):(?P<pid>\d+):(?P<tid>\d+) \[(?P<device>\d+)\] ")


def without_colours(text: str) -> str:
    """``text`` without the sequences that colour it on a terminal."""
    return _ANSI.sub("", text)


_KERNEL_HOST = late_pattern(
    r"^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24})"
    r" (?P<host>[\w.-]{1,253}) kernel:"
)


def kernel_host(text: str) -> str | None:
    """The host that syslog or journald writes before a line of the kernel; None where the line names none."""
    found = _KERNEL_HOST.match(text)
    return found["host"] if found is not None else None


class Speaker(NamedTuple):
    """Whoever printed a line, as far as its prefixes tell; turned into a rank when the whole log is known."""

    rank: int | None = None
    """Said outright (``[rank3]:``)."""
    label: int | None = None
    """``srun -l`` or ``mpirun --tag-output`` number: a rank, or a node when each task is a launcher."""
    tee: int | None = None
    """``[default3]:``: the local rank."""
    host: str | None = None
    pid: int | None = None
    name: str | None = None
    """A label whose meaning is not known: nobody's rank until something in the log says whose."""
    program: str | None = None
    """What its process runs, as the prefix calls it (``RayTrainWorker``, ``Worker_DP1_TP0``)."""


@dataclass(slots=True)
class SpokenLine:
    """A line without its prefixes; ``number``: which of its log. What it tells is kept with its speaker."""

    speaker: Speaker
    text: str
    dated: str
    """The part in which to look for a time: an outer time stamp if there is one, else the text."""
    number: int = 0
    rank: int | None = None
    """The one an ordinary line names itself."""

    @property
    def told(self) -> dict[str, int]:
        """What it tells itself of who printed it."""
        return {} if self.rank is None else {"rank": self.rank}


UNKNOWN_SPEAKER = Speaker()


class PrefixReader:
    """Takes prefixes off lines; a sample of the log decides whether ``3: `` and ``host: `` are prefixes in it."""

    def __init__(self, sample: str) -> None:
        lines = _line_starts(sample)[:2000]
        self.bordered = sum(line[:1] == "|" and line.rstrip()[-1:] != "|" for line in lines) * 2 > len(lines)
        if self.bordered:
            lines = [_BORDER.sub("", line) for line in lines]
        self.stamp = collector_timestamp_pattern(lines)
        stamp = self.stamp or _KUBE_TIME
        lines = [line[found.end() :] if (found := stamp.match(line)) is not None else line for line in lines]
        labelled = sum(1 for line in lines if _LABEL.match(line))
        self.labels = labelled > 0 and labelled * 2 >= len(lines)
        self.hosts = frozenset() if self.labels else _hosts_in(lines)
        self.colours = "\x1b" in sample or "[0m" in sample
        self.mpi_times = any(line[:1] != "[" and _MPI.match(line) for line in lines)
        self.composed = sum(1 for line in lines if _COMPOSE.match(line)) * 2 > len(lines)
        self.learned: tuple[Label, ...] = ()
        self.learned = labels_in([text for line in lines if not (text := self._known_off(line)).startswith("[rank")])

    def _known_off(self, text: str) -> str:
        """``text`` without the prefixes that the tables know."""
        known: dict[str, str] = {}
        while (found := self._next(text, known)) is not None and found.end() > 0:
            known.update({name: value for name, value in found.groupdict().items() if value is not None})
            text = text[found.end() :]
        return text

    def read(self, line: str, number: int = 0) -> SpokenLine:
        """Split one line, the one of this ``number``."""
        text = line
        if "\x1b" in text or (self.colours and "[" in text):
            text = without_colours(text)
        if self.bordered:
            text = _BORDER.sub("", text)
        if text[:1] in (">", "&"):
            text = _QUOTE.sub("", text)
        outer = ""
        known: dict[str, str] = {}
        if self.stamp is not None and (stamped := self.stamp.match(text)) is not None:
            known = {name: value for name, value in stamped.groupdict().items() if value is not None}
            outer = known.pop("time", "")
            text = text[stamped.end() :]
        for _ in range(6):
            found = self._next(text, known)
            if found is None:
                break
            known.update({name: value for name, value in found.groupdict().items() if value is not None})
            outer = outer or known.pop("time", "")
            text = text[found.end() :]
        for label in self.learned:
            if (found := label.pattern.match(text)) is not None:
                known.update({name: value for name, value in found.groupdict().items() if name not in known})
                text = text[found.end() :] if label.whole else text
        return SpokenLine(_speaker(known) if known else UNKNOWN_SPEAKER, text, outer or text, number)

    def _next(self, text: str, known: dict[str, str]) -> re.Match[str] | None:
        """The prefix at the start of ``text``, if any."""
        first = text[:1]
        if first == "[":
            if text[1:2] == "2" and (found := _PARALLEL.match(text)) is not None:
                return found
            found = _RANK.match(text) or _TEE.match(text) or _KUBE_POD.match(text) or _MPI.match(text)
            return None if found is not None and found.groupdict().get("role") == "rank" else found
        if first in "MTWFS" and self.mpi_times and (found := _MPI.match(text)) is not None:
            return found
        if first == "2" and (found := _KUBE_TIME.match(text)) is not None:
            return found
        if self.labels and "label" not in known and (first.isdigit() or first == " "):
            return _LABEL.match(text)
        if first == "(":
            return _RAY.match(text)
        if first in "ECW" and ".py:" in text[:120] and (found := _LOGGED_TRACEBACK.match(text)) is not None:
            return found
        if first == "r" and (found := _BARE_RANK.match(text)) is not None:
            return found
        if self.hosts and first.isalpha() and (found := _HOST.match(text)) and found["host"] in self.hosts:
            return found
        return _COMPOSE.match(text) if self.composed else None


@lru_cache(maxsize=65_536)
def _speaker_of(rank: str, label: str, tee: str, host: str, pid: str, name: str, program: str) -> Speaker:
    counted = numbers.rank(rank), numbers.rank(label), numbers.rank(tee)
    return Speaker(*counted, host or None, numbers.integer(pid), name or None, program.strip() or None)


def _speaker(known: dict[str, str]) -> Speaker:
    get = known.get
    told = [get(name, "") for name in ("rank", "label", "local", "host", "pid", "name", "program")]
    return _speaker_of(*told) if any(told) else UNKNOWN_SPEAKER


def _hosts_in(lines: list[str]) -> frozenset[str]:
    """Host names that stand in front of many lines (``pdsh``, DeepSpeed's multi-node runner)."""
    counts: dict[str, int] = {}
    for line in lines:
        found = _HOST.match(line)
        if found is not None and _BARE_RANK.match(line) is None:
            counts[found["host"]] = counts.get(found["host"], 0) + 1
    total = sum(counts.values())
    if total * 2 < len(lines):
        return frozenset()
    return frozenset(host for host, count in counts.items() if count >= 2)


def _line_starts(sample: str) -> list[str]:
    """The lines of ``sample`` up to where a bar writes over them: no collector puts anything before what follows."""
    lines = sample.split("\n" if "\n" in sample.strip() else "\r")
    return [line.lstrip("\r").partition("\r")[0] for line in lines if line.strip()]


def is_cpp_error(text: str) -> bool:
    """A line that C++ code (torch's, or another's with Google's logging) prints as an error or as its last word."""
    return _ERROR_HEAD.search(text) is not None


def origin_fields(text: str) -> dict[str, object]:
    """What the inside of a torch or NCCL line says of its origin: ``rank``, ``group_rank``, ``group``,
    ``group_description``, ``cpp_file``, ``cpp_line``, ``nccl_host``, ``nccl_pid``, ``device``."""
    found: dict[str, object] = {}
    c10d = _C10D.search(text) if "pp:" in text or ".h:" in text or ".c" in text else None
    if c10d is not None:
        found["cpp_file"], found["cpp_line"] = c10d["file"].rsplit("/", 1)[-1], numbers.integer(c10d["line"])
        if c10d["rank"]:
            found["rank"] = numbers.rank(c10d["rank"])
    elif "ank" in text and (spoken := (_ASCEND if "RankID:" in text else _SPOKEN).search(text)) is not None:
        found["rank"] = numbers.rank(spoken[1])
    group = _GROUP.search(text) if "[PG " in text else None
    if group is not None:
        found["group_rank"] = numbers.rank(group["group_rank"])
        found["group_id"] = group["id"]
        found["group"] = group["guid"] or group["id"]
        if group["description"]:
            found["group_description"] = group["description"]
    elif "[Rank " in text and (old := _OLD_GROUP.search(text)) is not None:
        found["group_rank"] = numbers.rank(old["group_rank"])
    elif "[TC]" in text and (tc := _TC.search(text)) is not None:
        found["group_rank"], found["group"] = numbers.rank(tc["rank"]), tc["name"]
    nccl = _NCCL.search(text) if " [" in text and ("NCCL " in text or "CCOM " in text) else None
    if nccl is not None:
        found["nccl_host"], found["nccl_pid"] = nccl["host"], numbers.integer(nccl["pid"])
        found["nccl_device"] = numbers.integer(nccl["device"])
    return {name: value for name, value in found.items() if value is not None}
