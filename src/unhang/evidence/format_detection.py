"""What a file is, decided by its first bytes. The name only settles what bytes cannot: a program's text from a log."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from unhang.late_pattern import late_pattern

HEAD_BYTES = 1 << 16
"""How many first bytes a decision may need."""


class FileKind(enum.Enum):
    """Which reader takes a file."""

    RECORDING = "flight-recorder dump"
    STACKS = "stack dump"
    LOG = "log"
    MANIFEST = "bundle manifest"
    SOURCE = "source file"
    PACE = "record of a job's pace"
    COMPARED = "comparison of calls"
    CHECKPOINTS = "listing of checkpoints"
    EARLIER = "listing of earlier runs"
    NODES = "listing of nodes"
    MACHINE = "series of a machine"
    TAR = "tar archive"
    ZIP = "zip archive"
    COMPRESSED = "compressed file"
    KNOWN_OTHER = "something else"
    BINARY = "binary data"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """A kind and, for ``KNOWN_OTHER`` and ``COMPRESSED``, which one: ``image``, ``gzip``."""

    kind: FileKind
    label: str = ""


_COMPRESSIONS = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))

_OTHER_MAGIC = (
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"%PDF", "document"),
    (b"\x7fELF", "program or library"),
    (b"\x93NUMPY", "array file"),
    (b"\x89HDF\r\n", "array file"),
    (b"PAR1", "data table"),
    (b"ARROW1", "data table"),
    (b"SQLite format 3\x00", "database"),
    (b"OggS", "audio or video"),
    (b"RIFF", "audio or video"),
    (b"ID3", "audio or video"),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", "checkpoint"),  # torch.save before 1.6
)

_PROGRAM_NAMES = frozenset(
    [
        ".yaml",
        ".yml",
        ".toml",
        ".cfg",
        ".ini",
        ".ipynb",
        ".sh",
        ".bash",
        ".slurm",
        ".sbatch",
        ".c",
        ".cc",
        ".cpp",
        ".h",
        ".hpp",
        ".cu",
        ".cuh",
        ".rs",
        ".go",
        ".js",
        ".ts",
        ".css",
        ".html",
        ".htm",
        ".xml",
        ".svg",
        ".lock",
        ".csv",
        ".tsv",
        ".rst",
        ".tex",
        ".jinja",
        ".j2",
        ".gitignore",
    ]
)
_PYTHON = re.compile(rb"^(?:from [\w.]+ import |import [\w.]+|def \w+\(|class \w+|@\w+|if __name__ ==)", re.MULTILINE)
_SCHEMA = re.compile(rb'"schema"\s*:\s*"unhang\.([a-z]+)/\d+"')
SHORTEST_GUESS = 4
"""Bytes below which nothing tells an encoding other than ASCII."""
_CONTROL = bytes(byte for byte in range(1, 32) if byte not in b"\t\n\v\f\r\b\x1b\x07") + b"\x7f"


def detect_format(head: bytes, name: str) -> DetectedFormat:
    """What the file called ``name`` that starts with ``head`` (up to ``HEAD_BYTES``) is. Never raises."""
    if not head:
        return DetectedFormat(FileKind.EMPTY)
    packed = _archive_format(head)
    if packed is not None:
        return packed
    ours = _own_file_format(head)
    if ours is not None:
        return ours
    return _readable(head, name)


def _archive_format(head: bytes) -> DetectedFormat | None:
    for magic, label in _COMPRESSIONS:
        if head.startswith(magic):
            return DetectedFormat(FileKind.COMPRESSED, label)
    if head[257:262] == b"ustar":
        return DetectedFormat(FileKind.TAR)
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    # torch.save and numpy write zip files too; their first member gives them away
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first.endswith((b"/data.pkl", b"/.format_version", b"/byteorder", b"/version")):
        return DetectedFormat(FileKind.KNOWN_OTHER, "checkpoint")
    return (
        DetectedFormat(FileKind.KNOWN_OTHER, "array file") if first.endswith(b".npy") else DetectedFormat(FileKind.ZIP)
    )


def _own_file_format(head: bytes) -> DetectedFormat | None:
    if head.lstrip()[:1] != b"{":
        return None
    schema = _SCHEMA.search(head[:4096])
    if schema is None:
        return None
    return _OWN_FILES.get(schema.group(1))


_OWN_FILES = {
    b"bundle": DetectedFormat(FileKind.MANIFEST),
    b"pace": DetectedFormat(FileKind.PACE),
    b"compared": DetectedFormat(FileKind.COMPARED),
    b"checkpoints": DetectedFormat(FileKind.CHECKPOINTS),
    b"history": DetectedFormat(FileKind.EARLIER),
    b"nodes": DetectedFormat(FileKind.NODES),
    b"machine": DetectedFormat(FileKind.MACHINE),
    b"verdict": DetectedFormat(FileKind.KNOWN_OTHER, "verdict of unhang"),
    b"run": DetectedFormat(FileKind.KNOWN_OTHER, "plan of unhang run"),
    **dict.fromkeys((b"settings", b"series", b"live"), DetectedFormat(FileKind.KNOWN_OTHER, "record of unhang run")),
}


def _readable(head: bytes, name: str) -> DetectedFormat:
    from unhang.evidence.flight_recorder.dump_detection import looks_like_flight_recorder, looks_like_pickle
    from unhang.evidence.profiler_trace import looks_like_trace
    from unhang.evidence.stacks import looks_like_stack

    if looks_like_trace(head):
        return DetectedFormat(FileKind.KNOWN_OTHER, "trace of torch.profiler (unhang compare A B reads two)")
    if looks_like_flight_recorder(head):
        return DetectedFormat(FileKind.RECORDING)
    other = _other(head)
    if other:
        return DetectedFormat(FileKind.KNOWN_OTHER, other)
    if looks_like_pickle(head):
        return DetectedFormat(FileKind.KNOWN_OTHER, "pickle other than a flight-recorder dump")
    if not is_text(head):
        return DetectedFormat(FileKind.BINARY)
    if looks_like_stack(head) and not _has_log_around_stacks(head):
        return DetectedFormat(FileKind.STACKS)
    return _text(head, name)


def _has_log_around_stacks(head: bytes) -> bool:
    """Words of the program stand before faulthandler's stacks, lines of a log before those of py-spy or gdb, or a
    launcher's after them: a log. The reader of logs keeps the stacks as well.
    """
    before = head.partition(b"most recent call first):")
    if not before[1]:
        return _has_log_around_samples(head)
    lines = (line.strip() for line in before[0].splitlines())
    told = any(line and not line.startswith(_FAULTHANDLER_SAYS) for line in lines)
    return told or _LAUNCHER_SAYS.search(before[2]) is not None


def _has_log_around_samples(head: bytes) -> bool:
    from unhang.evidence.logs.reading import looks_like_log

    begins = _SAMPLE_BEGINS.search(head)
    if begins is None:
        return False
    return looks_like_log(head[: begins.start()]) or _LAUNCHER_SAYS.search(head, begins.end()) is not None


_SAMPLE_BEGINS = late_pattern(
    rb"^(?:Process \d+: |Python v3\.|Thread \S+ \((?:active|idle)|Thread \d+ \(.*(?:LWP|process) \d+|TID \d+:)",
    re.MULTILINE,
)
_LAUNCHER_SAYS = re.compile(
    rb"^(?:\[?[WE]\d{4}[ :]|srun: |slurmstepd: |torch\.distributed\.elastic|.*ChildFailedError|.*closing signal SIG)",
    re.MULTILINE,
)
_FAULTHANDLER_SAYS = (b"Fatal Python error:", b"Timeout (", b"Python runtime state:", b"Thread 0x", b"Current thread ")


_DUMP_NAME = re.compile(r"(?:nccl|comm_lib)_trace_rank_\d")
"""What torch calls its dumps by default."""
_OWN_PAGE = b'<meta name="generator" content="unhang">'


def _text(head: bytes, name: str) -> DetectedFormat:
    from unhang.evidence.logs import looks_like_log

    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".py" and _PYTHON.search(head):
        return DetectedFormat(FileKind.SOURCE)
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html", b"<svg", b"<?xml")):
        return DetectedFormat(FileKind.KNOWN_OTHER, "report of unhang" if _OWN_PAGE in head[:4096] else "web page")
    if _DUMP_NAME.search(PurePosixPath(name).name) and not looks_like_log(head):
        return DetectedFormat(FileKind.KNOWN_OTHER, "text named like a flight-recorder dump")
    if suffix in _PROGRAM_NAMES and not looks_like_log(head):
        return DetectedFormat(FileKind.KNOWN_OTHER, "program or settings text")
    return (
        DetectedFormat(FileKind.KNOWN_OTHER, "settings text")
        if _is_json_document(head)
        else DetectedFormat(FileKind.LOG)
    )


def is_text(head: bytes) -> bool:
    """Whether ``head`` reads as text in any usual encoding; NUL bytes (holes, UTF-16) do not decide against it."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    filled = head.replace(b"\0", b"")
    if not filled:
        return False
    if len(head) < SHORTEST_GUESS and not head.isascii():
        # a dump cut off after its first byte is no text in some other encoding
        return False
    controls = len(filled) - len(filled.translate(None, _CONTROL))
    holes = len(head) - len(filled)
    if holes and not _is_wide(head) and not head.lstrip(b"\0").count(b"\n"):
        return False
    return controls <= max(2, len(filled) // 50)


def _is_wide(head: bytes) -> bool:
    """UTF-16 without its mark: every other byte of Latin text is NUL."""
    sample = head[:4096]
    return max(sample[0::2].count(0), sample[1::2].count(0)) > len(sample) * 0.4


def _is_json_document(head: bytes) -> bool:
    """One JSON object over many lines: settings. A log of JSON lines closes its object in the first line."""
    return head.lstrip().split(b"\n", 1)[0].strip() == b"{"


def _other(head: bytes) -> str:
    for magic, label in _OTHER_MAGIC:
        if head.startswith(magic):
            return label
    if head[4:8] == b"ftyp":
        return "audio or video"
    length = int.from_bytes(head[:8], "little")
    if 2 <= length < 1 << 28 and head[8:10] == b'{"':
        return "checkpoint"  # safetensors: eight bytes of length, then a JSON header
    if length < 1 << 20 and b"brain.Event:" in head[12:48]:
        return "TensorBoard file"
    return "compiled Python" if head[2:4] == b"\r\n" and len(head) > 16 and not is_text(head[:64]) else ""
