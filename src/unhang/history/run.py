"""One run as the history keeps it, and what a run folder tells of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unhang.findings import Source
from unhang.knowledge.job.workarounds import cause_worked_around
from unhang.knowledge.numbers import utc_time
from unhang.report.printable import printable
from unhang.report.text_serialization import clean_serialized
from unhang.secrets import without_secrets
from unhang.wire.documents.document import DECODE_ERRORS
from unhang.wire.documents.earlier_verdicts import gpus_named
from unhang.wire.documents.kept_verdict import KeptFinding, KeptVerdict
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.run_settings import RunSettings, read_run_settings
from unhang.wire.documents.verdict_summary import VerdictSummary

_Kind = TypeVar("_Kind")

MACHINE_CAUSES = ("gpu-hardware", "network-fault", "p2p-broken", "slow-rank", "rank-frozen", "host-memory")
"""Causes that may stay with a host or a card; the others stay with the program."""
IMAGE_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER")
GOOD, STALLED, FAILED, SLOW, ENDED = "good", "stalled", "failed", "slow", "ended"
SETTINGS = "settings.json"
MAX_SETTINGS = 1 << 20
MAX_VERDICT = 4 << 20
MAX_SUMMARIES = 200
MAX_SUMMARY = 64 << 10


@dataclass(frozen=True, slots=True)
class RunFinding:
    """The leading finding of one verdict of a run."""

    cause: str
    certainty: str
    status: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    cards: tuple[str, ...]
    """As the evidence names them: ``GPU-<uuid>`` or ``<host> <PCI address>``."""
    place: str
    sentence: str
    """In English."""
    parts: dict[str, Any] | None = field(default=None, hash=False)
    """``sentence`` as ``report/text_serialization.py`` carries it; None for runs of an older unhang."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run. Times in seconds since the epoch; ``settings``: its ``settings.json``, empty where there was none."""

    folder: str
    command: str
    cwd: str
    started_s: float
    ended_s: float
    outcome: str
    hosts: tuple[str, ...] = ()
    world_size: int | None = None
    steps: int = 0
    step_s: float | None = None
    settings: str = ""
    verdicts: tuple[RunFinding, ...] = ()
    number: int = 0
    """Of the run in the history, from 1."""

    @property
    def program(self) -> str:
        """What makes two runs runs of the same job: where it was started, and its script (or first plain word)."""
        words = self.command.split()
        script = next((word for word in words if word.endswith((".py", ".sh", ".yaml", ".yml", ".toml"))), "")
        return f"{self.cwd} {script or ' '.join(words[:2])}"


@dataclass(frozen=True, slots=True)
class TookPart:
    """A host, card or image (``kind``) of a run. ``cause``: for which a verdict named it; None where none did.

    ``host``: in which a card is, as far as is known.
    """

    kind: str
    name: str
    host: str = ""
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnding:
    """What the watcher knows at the end of a run. ``failed``: None where nobody can tell."""

    folder: str
    failed: bool | None
    ended_s: float
    hosts: tuple[str, ...] = ()
    world_size: int | None = None
    steps: int = 0
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class NeededSetting:
    """``setting`` (``NAME=value``) that ``host`` was seen to need, and ``how``: ``bisect 2026-11-20``."""

    host: str
    setting: str
    how: str


def day_of(time_s: float) -> str:
    """The local day of a time in seconds since the epoch."""
    when = utc_time(time_s)
    return "?" if when is None else f"{when.astimezone():%Y-%m-%d}"


def workarounds_of(run: PastRun) -> dict[str, str]:
    """What ``run`` was started with that gets around a broken transport (``NAME=value``), with the cause of each."""
    found = _environment(run).items()
    return {f"{name}={value}": cause for name, value in found if (cause := cause_worked_around(name, value))}


def _environment(run: PastRun) -> Mapping[str, str]:
    told = read_run_settings(run.settings.encode("utf-8", "replace"), source=Source(SETTINGS))
    return told.environment if isinstance(told, RunSettings) else {}


def took_part(run: PastRun) -> list[TookPart]:
    """Hosts and image of a run, and cards that were named; a host that only was there is no suspect.

    Of causes that stay with a machine the last verdict's counts, which is the first of the run's.
    """
    found = {("host", host): TookPart("host", host, host) for host in reversed(run.hosts)}
    blamed = [told for told in run.verdicts if told.cause in MACHINE_CAUSES]
    for told in reversed(blamed):
        only = told.nodes[0] if len(told.nodes) == 1 else ""
        found |= {("host", node): TookPart("host", node, node, told.cause) for node in told.nodes}
        for card in told.cards:
            found["card", card] = TookPart("card", card, card.partition(" ")[0] if " " in card else only, told.cause)
    image = _image(run)
    if image:
        found["image", image] = TookPart("image", image, "", blamed[0].cause if blamed else None)
    return list(found.values())


def _image(run: PastRun) -> str:
    """The container's image, as Apptainer and Slurm name it to what runs in it."""
    environment = _environment(run)
    return next((environment[name][:500] for name in IMAGE_VARIABLES if environment.get(name)), "")


def run_from_folder(ending: RunEnding) -> PastRun:
    """The run that left ``ending.folder``; what cannot be read of it is left out."""
    folder = Path(ending.folder)
    plan = _decoded(folder / "run.json", MAX_SETTINGS, RunPlan) or RunPlan()
    sentences = _sentences(folder / ".unhang")
    verdicts = tuple(_run_finding(document, ending.hosts, sentences) for document in _verdicts(folder))
    return PastRun(
        folder=str(folder),
        command=without_secrets(" ".join(plan.command))[:4096],
        cwd=plan.cwd,
        started_s=plan.started_s or ending.ended_s,
        ended_s=ending.ended_s,
        outcome=_outcome(ending, verdicts),
        hosts=ending.hosts,
        world_size=ending.world_size,
        steps=ending.steps,
        step_s=ending.step_s,
        settings=_text(folder / SETTINGS),
        verdicts=verdicts,
    )


def _outcome(ending: RunEnding, verdicts: tuple[RunFinding, ...]) -> str:
    statuses = {told.status for told in verdicts}
    if "hang" in statuses:
        return STALLED
    if ending.failed:
        return FAILED
    if "slow" in statuses:
        return SLOW
    return GOOD if ending.failed is False else ENDED


def _verdicts(folder: Path) -> Iterator[KeptVerdict]:
    """The last one, then those on waits that ended by themselves."""
    own = folder / ".unhang"
    for path in (folder / "verdict.json", *sorted((own / "past").glob("*/verdict.json"))[-8:]):
        document = _decoded(path, MAX_VERDICT, KeptVerdict)
        if document is not None and document.findings:
            yield document


def _sentences(own: Path) -> dict[str, dict[str, Any]]:
    """How each sentence that was said is carried: every sample leaves a summary, of the verdict it came to."""
    found = {}
    for path in sorted(own.glob("summary-*.json"), key=_number)[-MAX_SUMMARIES:]:
        summary = _decoded(path, MAX_SUMMARY, VerdictSummary)
        if summary is not None and summary.sentence_parts is not None:
            found[_clean(summary.sentence)] = clean_serialized(summary.sentence_parts, _clean)
    return found


def _number(path: Path) -> int:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _clean(text: str) -> str:
    """As a verdict's sentences are cleaned."""
    return without_secrets(printable(text))


def _run_finding(document: KeptVerdict, hosts: tuple[str, ...], sentences: Mapping[str, dict[str, Any]]) -> RunFinding:
    first = document.findings[0]
    nodes = first.nodes or (hosts if len(hosts) == 1 else ())
    sentence = _clean(first.summary)
    return RunFinding(
        cause=first.cause,
        certainty=first.certainty,
        status=document.status,
        ranks=first.ranks,
        nodes=nodes,
        cards=_cards(first, nodes),
        place=f"{first.where.file}:{first.where.line}" if first.where is not None and first.where.file else "",
        sentence=sentence[:500],
        parts=sentences.get(sentence),
    )


def _cards(finding: KeptFinding, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The cards a finding's evidence names, of a finding about cards."""
    if finding.cause != "gpu-hardware":
        return ()
    return tuple(sorted(gpus_named(" ".join(item.text for item in finding.evidence), nodes)))


def _decoded(path: Path, most: int, kind: type[_Kind]) -> _Kind | None:
    with suppress(OSError, *DECODE_ERRORS):
        if path.stat().st_size <= most:
            return msgspec.json.decode(path.read_bytes(), type=kind)
    return None


def _text(path: Path) -> str:
    with suppress(OSError):
        if path.stat().st_size <= MAX_SETTINGS:
            return path.read_text(encoding="utf-8", errors="replace")
    return ""
