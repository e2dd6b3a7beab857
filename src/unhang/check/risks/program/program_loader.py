"""A data loader that can wait for ever, cannot be made, or gives ranks different numbers of batches.

What happens: ``DataLoader(timeout=0)``, the default, waits for ever for a worker; workers beyond the cores starve each
other and NCCL's own threads; ``WebDataset`` deals out whole shards, so that ranks get different numbers of samples.

Why it hangs: a dead mount or worker on one rank shows as a timeout of a collective on the others; with unequal shards
one rank runs out of batches first.

Example: ``DataLoader(data, num_workers=8)`` on NFS; ``WebDataset(urls)`` without ``resampled=True`` or ``with_epoch``.

Fix: ``timeout=300``; fewer workers; ``resampled=True`` and ``with_epoch(n)``, or ``unhang reshard``.

Certain when: the call cannot be made (``persistent_workers`` without workers).

Possible when: everything else; it depends on storage and data.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import Cores
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, Remedy, RemedyKind, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.program.patterns.data_loaders import LoaderInSource, gives_webdataset_a_length, loaders_in
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import world_size_of
from unhang.sentences import Text, say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge every loader of the program."""
    program = here.found(ProgramSource)
    for source in program.files if program is not None else ():
        lines = source.text.splitlines()
        for loader in loaders_in(source):
            quote = Evidence(Source(loader.path, loader.line), lines[loader.line - 1].strip())
            if loader.kind == "WebDataset":
                if not loader.arguments.get("resampled") and not gives_webdataset_a_length(source):
                    yield _uneven_shards(loader, quote)
            else:
                yield from _data_loader(here, loader, quote)


def _data_loader(here: NodeInspection, loader: LoaderInSource, quote: Evidence) -> Iterator[Answer]:
    workers = loader.arguments.get("num_workers", 0 if "num_workers" not in loader.names else None)
    if loader.arguments.get("persistent_workers") is True and workers == 0:
        yield _finding(
            loader,
            quote,
            Cause.RANK_CRASHED,
            say("persistent_workers needs workers: this DataLoader raises"),
            say("num_workers=4, or no persistent_workers"),
            certainty=Certainty.CERTAIN,
            severity=Severity.STOPS,
        )
    if not isinstance(workers, int) or workers <= 0:
        return
    if not loader.arguments.get("timeout") and "timeout" not in loader.names:
        yield _finding(
            loader,
            quote,
            Cause.SLOW_DATA_LOADING,
            say("this DataLoader waits for ever for a worker: it has no timeout"),
            say("timeout=300"),
        )
    cores, launch = here.found(Cores), here.found(Launch)
    processes = (launch.processes if launch is not None else None) or world_size_of(here)
    if cores is not None and processes and workers * processes > 2 * cores.count:
        yield _finding(
            loader,
            quote,
            Cause.SLOW_DATA_LOADING,
            say(
                "{workers} workers × {processes} ranks = {all} processes on {cores} cores",
                workers=workers,
                processes=processes,
                all=workers * processes,
                cores=cores.count,
            ),
            say("num_workers={fits}", fits=max(1, cores.count // processes)),
            severity=Severity.SLOWS,
        )


def _uneven_shards(loader: LoaderInSource, quote: Evidence) -> Answer:
    return _finding(
        loader,
        quote,
        Cause.UNEVEN_DATA,
        say("WebDataset deals out whole shards: ranks may get different numbers of samples"),
        say("resampled=True and .with_epoch(n), or shards of one size and a multiple of the ranks in number"),
        severity=Severity.SLOWS,
    )


def _finding(
    loader: LoaderInSource,
    quote: Evidence,
    cause: Cause,
    summary: Text,
    change: Text,
    *,
    certainty: Certainty = Certainty.POSSIBLE,
    severity: Severity = Severity.NOTE,
) -> Answer:
    return risk(
        CHECK,
        f"{loader.path}:{loader.line}",
        cause,
        summary,
        certainty=certainty,
        severity=severity,
        where=Where(loader.path, loader.line, ""),
        evidence=(quote,),
        remedies=(
            Remedy(
                say("Change the call"),
                RemedyKind.CODE,
                change,
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
