"""Which store a URL leads to, what opens it, and how the URL may be shown."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from unhang.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
    **dict.fromkeys(("ssh", "sftp"), "fsspec paramiko"),
    **dict.fromkeys(("http", "https"), "fsspec aiohttp"),
    "hdfs": "fsspec pyarrow",
    "webhdfs": "fsspec requests",
}
"""What pip installs for a scheme; fsspec alone for others."""
_RANGED = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "http", "https")
"""Schemes whose files of fsspec keep a cache of their own that we do not want: we ask for the ranges we need."""
_RETRYING = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"))
_QUERY = re.compile(r"\?(?=[\w.%-]+=)[^#]*|#.*")
_KEPT = re.compile(r"[?&]((?:versionId|generation)=[\w.-]+)")
_SIGNED_IN = re.compile(r"://[^/@]*@")


def scheme_of(url: str) -> str:
    """``s3`` of ``s3://bucket/run``."""
    return url.partition("://")[0]


def shown_url(url: str) -> str:
    """``url`` without passwords, signatures and tokens: what stands before the host, and what is asked for behind."""
    kept = _KEPT.search(url)
    plain = _QUERY.sub("", url) + (f"?{kept[1]}" if kept else "")
    signed_in = _SIGNED_IN.search(plain)
    if signed_in is None or (scheme_of(url) in ("abfs", "abfss", "ssh", "sftp") and ":" not in signed_in[0][3:]):
        return plain  # container@account, user@host
    return _SIGNED_IN.sub("://", plain, count=1)


def is_web(url: str) -> bool:
    """Whether it is an address of the web, where a folder is a page of links and a query may be a signature."""
    return scheme_of(url) in ("http", "https")


def walks_folders(url: str) -> bool:
    """Whether its store has real folders, each of which may be closed to us."""
    return scheme_of(url) in ("ssh", "sftp", "hdfs", "webhdfs")


def retries_by_itself(url: str) -> bool:
    """Whether the package behind ``url`` asks again by itself where a server did not answer."""
    return scheme_of(url) in _RETRYING


def opening_options(url: str) -> dict[str, str]:
    """What its files are opened with, so that each byte is fetched when it is asked for and not before."""
    return {"cache_type": "none"} if scheme_of(url) in _RANGED else {}


@lru_cache(maxsize=256)
def store_of(url: str) -> tuple[AbstractFileSystem, str]:
    """Fsspec's file system behind ``url``, the same one every time, and the path in it. May connect.

    Raises:
        MissingExtra: the package that reads such URLs is not installed.
        UsageError: there is none.
    """
    packages = _PACKAGES.get(scheme_of(url), "fsspec")
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as error:
        told = f"reading {scheme_of(url)}:// needs {packages.replace(' ', ' and ')}"
        raise MissingExtra(told, next_step=f"pip install {packages}") from error
    except ValueError as error:
        raise UsageError(
            f"{shown_url(url)} is not a URL that can be read",
            next_step="s3://, gs://, abfs://, hdfs://, sftp://, http:// and https:// can",
        ) from error
