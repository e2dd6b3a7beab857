"""Let an engine read what was found, and collect what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from unhang.errors import MissingExtra
from unhang.evidence.engines.cluster import engine_on
from unhang.evidence.engines.engine import Engine
from unhang.evidence.engines.tasks import Found, ReadTask, tasks_of
from unhang.evidence.evidence_parts import EvidenceParts
from unhang.evidence.evidence_reader import Tell, read_part
from unhang.evidence.found_files import FoundFile, FoundFiles
from unhang.wire.documents.bundle import log_bytes_at_capture

if TYPE_CHECKING:
    from unhang.evidence.read_limits import ReadLimits

_ENGINES = {
    "local": ("", "local", "LocalEngine"),
    "dask": ("distributed", "dask_cluster", "DaskCluster"),
    "ray": ("ray", "ray_cluster", "RayCluster"),
}
"""By name: the package that a cluster needs, our module and our class."""


def read_with(
    name: str, address: str, found: FoundFiles, limits: ReadLimits, parts: EvidenceParts, tell: Tell | None
) -> None:
    """Add to ``parts`` all of ``found``: pipes and manifests are read here, everything else by the engine ``name``.

    Raises:
        MissingExtra: the engine's library is not installed.
        UsageError: its cluster at ``address`` cannot be reached, or its workers cannot read for us.
    """
    placed = list(enumerate(found.files))
    here = [file for _, file in placed if _is_manifest(file)]
    left = [(place, file) for place, file in placed if not _is_manifest(file)]
    if name != "local":
        left = [(place, _as_seen_elsewhere(file)) for place, file in left]
    roots = {str(file.root.absolute()) for _, file in left if isinstance(file, FoundFile)}
    with closing(_engine(name, address, sorted(roots))) as engine:
        first = read_part(FoundFiles(files=here, pipes=found.pipes), limits, tell=tell)
        manifests = first.evidence.manifests
        cut = {file.name: log_bytes_at_capture(manifests, file.name) for _, file in left} if manifests else {}
        whole = ReadTask(tuple(left), limits, {name: size for name, size in cut.items() if size is not None})
        tasks = [whole.only(some) for some in tasks_of(left, engine.workers())]
        parts.add(-1, first)
        done = 0
        for task, part in engine.run(tasks):
            parts.add(task.place, part)
            done += len(task.files)
            if tell is not None:
                tell(task.size, f"{done:,} of {len(left):,} files")


def _engine(name: str, address: str, paths: Sequence[str]) -> Engine:
    """The engine ``name``, whose workers can read below ``paths``; an empty ``address``: a cluster of its own."""
    package, module, kind = _ENGINES[name]
    try:
        import_module(package or __package__)
    except ImportError as error:
        raise MissingExtra(f"--engine {name} needs {package}", next_step=f"pip install {package}") from error
    engine = getattr(import_module(f"{__package__}.{module}"), kind)
    return engine_on(engine(address), paths) if package else engine()


def _as_seen_elsewhere(file: Found) -> Found:
    """``file`` for a process with another working folder; other machines number files of a shared disk differently."""
    return replace(file, path=file.path.absolute(), identity=None) if isinstance(file, FoundFile) else file


def _is_manifest(file: Found) -> bool:
    """It tells how much of the logs beside it is of its moment, so it is read before them."""
    return file.name.rpartition("/")[2] == "bundle.json"
