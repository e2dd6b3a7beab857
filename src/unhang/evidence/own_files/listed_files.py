"""What a bundle's manifest lists and what is not there: what it would have told is not known."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

from unhang.evidence.file_names import rank_from_name
from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import BundleManifest, folder_of, rank_of_file

MAX_NAMED = 100
"""Of a torn archive of thousands of ranks; the others are counted."""


def unavailable_files(manifest: BundleManifest, seen: Container[str]) -> Iterator[Unread]:
    """Files of the bundle that were lost or cut. ``seen``: the names of all that was opened, or could not be."""
    folder = folder_of(manifest)
    gone = [name for name in manifest.files if not _is_there(folder + name, seen)]
    for name in gone[:MAX_NAMED]:
        yield _unavailable(manifest, name, "is listed in bundle.json and is not there")
    if len(gone) > MAX_NAMED:
        yield Unread(manifest.source, f"lists {len(gone) - MAX_NAMED:,} more files that are not there", lost=True)
    for name in manifest.cut:
        yield _unavailable(manifest, name, "is cut: what was printed later could not be kept")


def _is_there(name: str, seen: Container[str]) -> bool:
    """Of several links to one file, only the first is opened; and who names single files leaves the others out."""
    return name in seen or ("!" not in name and os.path.lexists(name))


def _unavailable(manifest: BundleManifest, name: str, reason: str) -> Unread:
    rank = rank_of_file(manifest, name)
    return Unread(Source(folder_of(manifest) + name), reason, rank_from_name(name) if rank is None else rank, lost=True)
