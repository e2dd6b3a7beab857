"""Steps folded into runs: one per speaker and label, from its first to its last step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from unhang.evidence.items import Progress
from unhang.evidence.logs.lines.prefixes import Speaker, SpokenLine
from unhang.evidence.logs.lines.progress import LogStep, find_data_wait
from unhang.evidence.logs.lines.speakers import Spoken
from unhang.findings import Source
from unhang.sentences import shortened

RECENT = 4096
MAX_RUNS, MAX_LABELS = 8, 20_000


@dataclass(slots=True)
class _OpenRun:
    """Steps of one speaker under one label that only grow, while its log is read."""

    run: Progress
    said: SpokenLine
    told: int = 0
    """So many lines told its last step, and ``most_told`` that of the steps before which most did."""
    most_told: int = 0
    recent: deque[tuple[int, float | None]] = field(default_factory=lambda: deque(maxlen=RECENT))
    loads: deque[tuple[int, float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    printed: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def ended(self) -> Spoken[Progress]:
        """The run as it stands at the end of the log."""
        run = self.run
        run.recent, run.loads, run.printed = tuple(self.recent), tuple(self.loads), tuple(self.printed)
        run.repeated = self.told > self.most_told > 0
        return run, self.said.speaker, self.said.told


class ProgressReader:
    """Folds steps into runs; a label that starts over begins a new run (at most ``MAX_RUNS`` a speaker and label)."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._runs: dict[tuple[Speaker, int | None, str], list[_OpenRun]] = {}
        self.dropped = 0

    def take(self, said: SpokenLine, step: LogStep, time_s: float | None, attempt: int) -> None:
        """Add the step that a line tells."""
        key = (said.speaker, said.rank, step.label)
        runs = self._runs.get(key)
        if runs is None:
            if len(self._runs) >= MAX_LABELS:
                self.dropped += 1
                return
            runs = self._runs[key] = []
        opened = runs[-1] if runs else None
        if (
            opened is None
            or step.number < opened.run.last_step
            or step.total != opened.run.total
            or opened.run.attempt != attempt
        ):
            opened = _OpenRun(self._begun(said, step, time_s, attempt), said)
            runs.append(opened)
            if len(runs) > MAX_RUNS:
                del runs[1]
                self.dropped += 1
        text = shortened(said.text, 300)
        run, recent = opened.run, opened.recent
        if not recent or recent[-1][0] != step.number:
            recent.append((step.number, time_s))
            if (printed_s := step.elapsed_s if step.elapsed_s is not None else step.per_step_s) is not None:
                opened.printed.append((step.number, printed_s))
            if (load := find_data_wait(text)) is not None:
                opened.loads.append((step.number, *load))
        if step.number != run.last_step:
            opened.most_told, opened.told = max(opened.most_told, opened.told), 0
        opened.told += 1
        run.last_step, run.last_line, run.last_text = step.number, said.number, text
        run.last_time_s = time_s if time_s is not None else run.last_time_s
        run.elapsed_s = step.elapsed_s if step.elapsed_s is not None else run.elapsed_s

    def _begun(self, said: SpokenLine, step: LogStep, time_s: float | None, attempt: int) -> Progress:
        where = Source(self._source, said.number)
        run = Progress(where, None, step.label, step.number, -1, step.total, time_s, None, said.number, step.unit)
        run.attempt, run.program = attempt, said.speaker.program or ""
        return run

    def runs(self) -> list[Spoken[Progress]]:
        """All runs, in the order of their first lines."""
        found = [opened.ended() for runs in self._runs.values() for opened in runs]
        return sorted(found, key=lambda spoken: spoken[0].source.line or 0)
