"""Which objects a URL names: one, all below it, or those its glob matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from unhang.errors import MissingExtra, UsageError
from unhang.evidence.objects.requests import Request, is_absence, reason_of
from unhang.evidence.objects.stores import is_web, shown_url, store_of, walks_folders
from unhang.evidence.read_limits import SKIPPED_FOLDERS, ReadLimits
from unhang.findings import Source, Unread

LISTING_LIMIT_S = 600.0
"""A thousand objects come with each answer: so many millions are listed in this time."""
_MAGIC = re.compile(r"[*?\[]")
_TAGS = ("ETag", "etag", "generation", "md5Hash", "content_md5")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "Last-Modified", "modified", "created")


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object behind a URL. ``name``: its URL as it may be shown; ``size`` in bytes, -1 when not known yet.

    ``store``: the URL as it was typed, with what must not be shown; ``key``: what fsspec calls the object there;
    ``version``: its tag when it was listed, empty where the store has none; ``root``: what the user named.
    """

    name: str
    size: int
    modified_s: float | None
    root: Path
    store: str = field(repr=False)
    key: str = field(repr=False)
    version: str = ""


@dataclass(slots=True)
class Listing:
    """What a URL names; ``files`` and ``unread`` are both empty when that is nothing."""

    files: list[FoundObject] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def find_objects(url: str, limits: ReadLimits, skipped: Collection[str] = SKIPPED_FOLDERS) -> Listing:
    """Everything that ``url`` names, in order, but what lies in folders that are ``skipped``.

    Raises:
        MissingExtra: the package that reads such URLs is not installed.
        UsageError: there is none.
    """
    found, troubles = Listing(), list[Exception]()
    request = Request(lambda: _listed(url, limits, troubles.append), LISTING_LIMIT_S)
    try:
        named = request.answer()
    except (MissingExtra, UsageError):
        raise
    except Exception as error:  # noqa: BLE001 - packages of many stores raise what they like
        if not is_absence(error):
            found.unread.append(Unread(Source(shown_url(url)), reason_of(error)))
        return found
    for key in sorted(named.infos, key=lambda key: key.split("/")):
        if set(named.inner(key).split("/")).isdisjoint(skipped):
            _add(found, named, key, limits)
    hidden = next((error for error in troubles if not is_absence(error)), None)
    if hidden is not None:
        reason = f"holds folders that could not be listed: one {reason_of(hidden)}"
        found.unread.append(Unread(Source(named.shown), reason))
    return found


Infos = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Named:
    """What fsspec tells of each object, by its key; ``base``: what the keys begin with, ``shown`` as it is shown."""

    url: str
    infos: Infos
    base: str
    shown: str

    def inner(self, key: str) -> str:
        """Where the object is below what was named; empty when it was named itself."""
        inner = key[len(self.base) :].strip("/") if key.startswith(self.base) else key.rpartition("/")[2]
        return shown_url(inner) if is_web(self.url) else inner


def _listed(url: str, limits: ReadLimits, trouble: Callable[[Exception], None]) -> _Named:
    store, path = store_of(url)
    shown = shown_url(url).rstrip("/")
    if is_web(url):
        if not url.endswith("/"):  # else its content would be searched for links
            return _Named(url, {path: {**store.info(path), "name": path}}, path, shown)
        return _Named(url, store.find(path, detail=True, maxdepth=limits.depth, on_error=trouble), path, shown)
    on_error = {"on_error": trouble} if walks_folders(url) else {}

    def below(place: str) -> Infos:
        return {key: info or store.info(key) for key, info in store.find(place, detail=True, **on_error).items()}

    magic = _MAGIC.search(path)
    matched: Infos = store.glob(path, detail=True) if magic is not None else {}
    if magic is None or not matched:  # a name may have such a sign in it
        return _Named(url, below(path), path, shown)
    infos: Infos = {}
    for key, info in matched.items():
        infos.update(below(key) if info["type"] == "directory" else {key: info})
    base = path[: magic.start()].rpartition("/")[0]
    return _Named(url, infos, base, shown.removesuffix(path[len(base) :]))


def _add(found: Listing, named: _Named, key: str, limits: ReadLimits) -> None:
    info, inner = named.infos[key], named.inner(key)
    name = f"{named.shown}/{inner}" if inner else named.shown
    parts = inner.split("/")
    if info["type"] == "directory" or key.endswith("/"):
        return
    if len(parts) > limits.depth:
        _refuse_once(found, named.shown, f"holds folders more than {limits.depth} deep; they were not looked into")
    elif info["type"] != "file":
        found.unread.append(Unread(Source(name), "is a link or a device on a server; it was not followed"))
    elif len(found.files) >= limits.files:
        _refuse_once(found, named.shown, f"holds more than {limits.files:,} files; the rest was not looked at")
    else:
        size = info["size"] if isinstance(info["size"], int) else -1
        root = Path(named.shown if inner else named.shown.rpartition("/")[0])
        found.files.append(FoundObject(name, size, modified_of(info), root, named.url, key, version_of(info)))


def _refuse_once(found: Listing, name: str, reason: str) -> None:
    if not any(item.reason == reason for item in found.unread):
        found.unread.append(Unread(Source(name), reason))


def version_of(info: Mapping[str, Any]) -> str:
    """What another content would change; empty where the store keeps nothing of the kind."""
    tag = next((str(info[name]) for name in _TAGS if info.get(name)), "")
    return tag.removeprefix("W/").strip('"')  # some servers list it without quotes


def modified_of(info: Mapping[str, Any]) -> float | None:
    """When it was written, in seconds since 1970; None when the store does not say."""
    told = next((info[name] for name in _TIMES if info.get(name)), None)
    if isinstance(told, str):
        told = _moment(told)
    if isinstance(told, datetime):
        return told.timestamp()
    return float(told) if isinstance(told, int | float) else None


def _moment(text: str) -> datetime | None:
    """A time as ISO 8601 or as HTTP writes it."""
    with suppress(ValueError):
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    with suppress(TypeError, ValueError):
        return parsedate_to_datetime(text)
    return None
