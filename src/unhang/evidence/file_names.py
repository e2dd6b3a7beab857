"""Which rank and host a file belongs to, as far as its name tells. Serves every reader.

An explicit ``rank`` word wins; then the folder torchrun made for the rank; then words dumps are called by; then
trailing digits, if nothing else in the name is a number. A name that can be read in two ways tells nothing.
"""

from __future__ import annotations

import re
from pathlib import PurePath, PurePosixPath

from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

_RANK_WORD = late_pattern(
    r"(?<![a-z])(?P<kind>local|node|group|global)?[_\-. ]?rank[_\-.=: ]?(?P<rank>\d{1,7})(?!\d)", re.IGNORECASE
)
_RANK_RANGE = late_pattern(r"rank[_\-.=]?\d+\s*(?:-|to|\.\.)\s*\d+(?![\w])", re.IGNORECASE)
_DUMP_WORD = late_pattern(
    r"(?:^|[_\-.]|(?<=[a-z]))(?:dump|trace|recorder|fr|stacks?|pyspy|py-spy|faulthandler)[_\-.]?(\d{1,7})(?![\d])",
    re.IGNORECASE,
)
_TRAILING = late_pattern(r"^(?P<words>\D*?)(?P<joint>[_\-.]?)(?P<number>\d{1,6})$")
_TRAILING_AFTER_HOST = late_pattern(r"^.*\d.*_(?P<words>[a-z]+)_(?P<number>\d{1,6})$", re.IGNORECASE)
_EXTENSION = late_pattern(
    r"\.(?:pkl|pickle|json|jsonl|bin|log|txt|out|err|gz|xz|zst|bz2|pyspy|stack|stacks|dump|trace|except|exception"
    r"|faulthandler)$",
    re.IGNORECASE,
)
_NOT_A_RANK = late_pattern(
    r"(?:steps?|epoch|iter|iteration|checkpoint|ckpt|attempt|restart|nodes?|hosts?|gpus?|workers?|run|part|version|v|job"
    r"|slurm|pid|log|train|pod|try|local[_\-.]?rank|node[_\-.]?rank|group[_\-.]?rank)$",
    re.IGNORECASE,
)
_STREAMS = {"stderr.log", "stdout.log", "stderr", "stdout", "error.json", "stderr.txt", "stdout.txt"}
_NUMBERED_FOLDERS = {"rank", "ranks", "trace", "traces", "comm_traces", "dumps", "stacks", "logs", "by-rank", "by_rank"}
_HOST_BEFORE = late_pattern(
    r"^(?P<host>[a-z][a-z0-9\-.]*\d[a-z0-9\-.]*)_(?:[a-z_]*_)?(?:rank|dump|trace)", re.IGNORECASE
)
_HOST_AFTER = late_pattern(r"rank[_\-]?\d+[._@\-](?P<host>[a-z][a-z0-9\-.]*)$", re.IGNORECASE)


def rank_from_name(path: str | PurePath) -> int | None:
    """The global rank the name of ``path`` tells (``nccl_trace_rank_7``, ``attempt_0/3/stderr.log``), else None.

    The folder of torchrun is numbered by local rank; on one node that is the global rank.
    """
    pure = _pure(path)
    stem = _without_extensions(pure.name)
    if "rank" in stem.lower():
        return _named_rank(stem)
    from_folder = _folder_rank(pure)
    if from_folder is not None:
        return from_folder
    words = {numbers.rank(number) for number in _DUMP_WORD.findall(stem)}
    if words:
        return words.pop() if len(words) == 1 else None
    return _trailing_rank(pure, stem)


def host_from_name(path: str | PurePath) -> str | None:
    """The host the name of ``path`` tells (``node12_rank_3``, ``nccl_trace_rank_3.gpu-host-17``), else None."""
    stem = _without_extensions(_pure(path).name)
    found = _HOST_AFTER.search(stem) or _HOST_BEFORE.search(stem)
    return found.group("host") if found else None


def _pure(path: str | PurePath) -> PurePosixPath:
    text = path.as_posix() if isinstance(path, PurePath) else path
    return PurePosixPath(text.replace("!", "/").replace("\\", "/"))


def _without_extensions(name: str) -> str:
    while (shorter := _EXTENSION.sub("", name)) != name and shorter:
        name = shorter
    return name


def _named_rank(text: str) -> int | None:
    if _RANK_RANGE.search(text):
        return None
    found: dict[str, set[int | None]] = {}
    for match in _RANK_WORD.finditer(text):
        found.setdefault((match.group("kind") or "").lower(), set()).add(numbers.rank(match.group("rank")))
    for kind in ("global", ""):
        ranks = found.get(kind, set())
        if ranks:
            return next(iter(ranks)) if len(ranks) == 1 else None
    return None


def _folder_rank(pure: PurePosixPath) -> int | None:
    folders = [folder for folder in reversed(pure.parts[:-1]) if folder not in ("/", ".")]
    if not folders:
        return None
    if pure.name.lower() in _STREAMS and folders[0].isdecimal() and len(folders[0]) <= 6:
        return numbers.rank(folders[0])
    for folder in folders[:2]:
        if "rank" in folder.lower() and (rank := _named_rank(folder)) is not None:
            return rank
    return None


def _trailing_rank(pure: PurePosixPath, stem: str) -> int | None:
    if stem.isdecimal():
        numbered = pure.parent.name.lower() in _NUMBERED_FOLDERS and len(stem) <= 6
        return numbers.rank(stem) if numbered else None
    found = _TRAILING.match(stem) or _TRAILING_AFTER_HOST.match(stem)
    if found is None or _NOT_A_RANK.search(found.group("words").rstrip("_-.")):
        return None
    is_dump = pure.suffix.lower() in (".pkl", ".pickle", ".json", ".bin") or stem == pure.name
    return numbers.rank(found.group("number")) if is_dump and "-" not in found.groupdict().get("joint", "") else None
