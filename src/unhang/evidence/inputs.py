"""Anything the user names, read into one EvidenceSet: files, folders, globs, pipes, archives, in any mix.

What a file is, is decided by its content. What cannot be read is in ``unread``, with its reason; only when nothing at
all can be read is an error raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unhang.errors import EvidenceError, UsageError
from unhang.evidence.evidence_parts import EvidenceParts
from unhang.evidence.evidence_reader import read_part
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.found_files import FoundFiles, find_files
from unhang.evidence.read_limits import DEFAULT_LIMITS, ReadLimits
from unhang.findings import Source, Unread

Progress = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, name of the file being read)."""
WORTH_SPREADING = 1 << 30
"""So many bytes take longer to read than processes to start."""
_A_FILE = 1 << 16
"""What opening a file costs beside reading it, in bytes."""


def read_evidence(
    inputs: Sequence[str],
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    engine: str = "",
    engine_address: str = "",
) -> EvidenceSet:
    """Read everything ``inputs`` name.

    Args:
        inputs: paths, globs, ``-``.
        limits: of what is read.
        progress: hears how far it is.
        engine: who reads: ``local`` (processes of this machine, where there is much to read), ``dask`` or ``ray``;
            empty: this process, but for many dumps.
        engine_address: of the engine's cluster; empty: it starts one on this machine.

    Raises:
        MissingExtra: the engine's library is not installed.
        UsageError: nothing of what was named exists, or the engine cannot be used.
        EvidenceError: nothing in it can be read.
    """
    if not inputs:
        raise UsageError("give what the job left behind: a log, a dump or a folder", next_step="unhang diagnose PATH")
    found = find_files(inputs, limits)
    if not found.files and not found.pipes and not found.unread:
        raise _nothing_there(found)
    tell = _progress_callback(found, progress)
    parts = EvidenceParts(found.inputs, limits)
    if engine not in ("", "local") or (engine and _is_worth_spreading(found)):
        from unhang.evidence.engines.reading import read_with

        read_with(engine, engine_address, found, limits, parts, tell)
    else:
        parts.add(0, read_part(found, limits, spread_dumps=True, tell=tell))
    evidence = parts.joined()
    evidence.unread[:0] = [*found.unread, *(Unread(Source(text), "does not exist") for text in found.missing)]
    if not (evidence.recorder_dumps or evidence.stacks or evidence.logs or evidence.manifests):
        raise _nothing_readable(evidence, found)
    return evidence


def _is_worth_spreading(found: FoundFiles) -> bool:
    return sum(max(0, file.size) + _A_FILE for file in found.files) >= WORTH_SPREADING and len(found.files) > 1


def _progress_callback(found: FoundFiles, progress: Progress | None) -> Callable[[int, str], None] | None:
    if progress is None:
        return None
    total = sum(max(0, file.size) for file in found.files)
    done = 0

    def tell(count: int, name: str) -> None:
        nonlocal done
        done += count
        progress(min(done, total), total, name)

    return tell


def _nothing_there(found: FoundFiles) -> UsageError:
    if found.missing:
        named = ", ".join(found.missing[:3])
        return UsageError(
            f"nothing to read: {named} does not exist", next_step="unhang diagnose PATH, or unhang to look around"
        )
    return UsageError(
        "nothing to read: the folder holds no files", next_step="unhang diagnose PATH, or unhang to look around"
    )


def _nothing_readable(evidence: EvidenceSet, found: FoundFiles) -> EvidenceError:
    looked = len(found.files) + len(found.pipes)
    reasons = "; ".join(f"{item.source.path}: {item.reason}" for item in evidence.unread[:3])
    more = f"; and {len(evidence.unread) - 3} more" if len(evidence.unread) > 3 else ""
    what = f"{looked} file{'s' if looked != 1 else ''} looked at"
    return EvidenceError(
        f"nothing here can be read as a log, a dump or a stack ({what}): {reasons}{more}",
        next_step="give the job's log or its flight-recorder dumps: unhang diagnose PATH",
    )
