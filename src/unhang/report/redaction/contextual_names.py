"""Names that only their place tells, and which are plain words elsewhere: renamed where they stand, nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable

from unhang.late_pattern import late_pattern

Rename = Callable[[str, str], str]
"""(kind, name) to the name that is shown."""

_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_CARD = late_pattern(rf"\b(?P<before>GPU-|MIG-)(?P<name>{_UUID})")
_SERIAL = late_pattern(
    r"\b(?P<before>serial(?:[ _]?number)?[\"']?\s{0,40}[:=]\s{0,4}[\"']?)(?P<name>\d{8,20})\b", re.IGNORECASE
)
_BUCKET = late_pattern(
    r"\b(?P<before>(?:s3[an]?|gs|gcs|oss|cosn?|obs|tos|bos|hdfs|abfss?|wasbs?|az|r2|b2|minio|swift)://)"
    r"(?P<name>[^\s\"'<>)\],;]{2,1024})"
)
_BUCKET_SAID = late_pattern(
    r"\b(?P<before>bucket(?:[ _]?name)?(?:[\"']?\s?[:=]\s?[\"']?| [\"']))(?P<name>[a-z0-9][\w.-]{2,62})", re.IGNORECASE
)
_LATIN = r"[A-Za-z_][\w.-]{1,63}"
_SET = r"[\"']?\s?[:：=]\s?[\"']?"
_USER = late_pattern(
    rf"\b(?P<before>(?:user(?:[ _-]?name)?|owner|submitter|account|login){_SET}|\bfor user [\"']?)(?P<name>{_LATIN})"
    rf"|(?P<before2>(?:用户名?|账号|账户|姓名|提交人){_SET})(?P<name2>{_LATIN}|[\u4e00-\u9fff]{{2,6}})",
    re.IGNORECASE,
)
_TILDE = late_pattern(r"(?<![\w/.~])(?P<before>~)(?P<name>[a-z_][a-z0-9_.-]{1,31})(?=/|\s*$)")
_PATHS = (
    late_pattern(r"(?P<before>\")(?P<name>/[^\"\n/]{1,255}/[^\"\n]{1,1024})(?=\")"),
    late_pattern(r"(?P<before>')(?P<name>/[^'\n/]{1,255}/[^'\n]{1,1024})(?=')"),
    late_pattern(r"(?P<before>\()(?P<name>/[^()\n:/]{1,255}/[^()\n:]{1,1024})(?=:\d+\))"),
    late_pattern(r"(?P<before>^)(?P<name>/[^\n\"':;=]{1,1024}\.\w{1,8})(?=$)"),
)
"""With blanks inside, whose ends the signs around them tell."""
_NOTHING = "00000000-"
_NO_NAME = frozenset(
    (
        *("none", "null", "true", "false", "unknown", "error", "root", "user", "name", "id", "self", "str", "size"),
        *("failed", "success", "required", "system", "time", "default", "anonymous", "admin", "node", "rank", "cap"),
        "removed",
    )
)
_RENAMED = late_pattern(r"(?:user|bucket|host|path|email|addr)-\d+\b|\[removed")


def rename_in_context(line: str, rename: Rename, path: Callable[[str], str]) -> str:
    """``line`` with what stands where only a name can stand renamed; ``path`` rewrites a path."""
    lowered = line.lower()
    if "-" in line and ("GPU-" in line or "MIG-" in line):
        line = _CARD.sub(lambda m: m["before"] + _card(m["name"], rename), line)
    if "serial" in lowered:
        line = _SERIAL.sub(lambda m: m["before"] + _serial(m["name"], rename), line)
    if "://" in line:
        line = _BUCKET.sub(lambda m: m["before"] + _bucket(m["name"], rename, path), line)
    if "bucket" in lowered:
        line = _BUCKET_SAID.sub(lambda m: m["before"] + _word(m["name"], "bucket", rename), line)
    if "~" in line:
        line = _TILDE.sub(lambda m: m["before"] + _word(m["name"], "user", rename), line)
    if _USER_HINT.search(lowered):
        line = _USER.sub(lambda m: (m["before"] or m["before2"]) + _word(m["name"] or m["name2"], "user", rename), line)
    if " " in line and "/" in line:
        for pattern in _PATHS:
            line = pattern.sub(lambda m: m["before"] + (path(m["name"]) if " " in m["name"] else m["name"]), line)
    return line


_USER_HINT = late_pattern(r"user|owner|submitter|account|login|用户|账|姓名|提交人")


def _word(name: str, kind: str, rename: Rename) -> str:
    return name if name.lower() in _NO_NAME or _RENAMED.match(name) else rename(kind, name)


def _card(name: str, rename: Rename) -> str:
    """A card's number in the shape that readers of logs know."""
    if name.startswith(_NOTHING):
        return name
    return f"00000000-0000-0000-0000-{int(rename('card', name.lower()).rpartition('-')[2]):012d}"


def _serial(name: str, rename: Rename) -> str:
    return name if name.startswith(_NOTHING[:5]) else rename("serial", name).rpartition("-")[2].zfill(len(name))


def _bucket(place: str, rename: Rename, path: Callable[[str], str]) -> str:
    bucket, slash, rest = place.partition("/")
    shown = bucket if _RENAMED.match(bucket) else rename("bucket", bucket)
    return shown + (path(f"/{rest}") if rest.count("/") else slash + rest)
