"""One screen of a run: what it is, whether it moves, who waits for whom. Pure: a state in, lines out.

Every sign tells the state without colour too. Rows are ranks while they fit; otherwise one sign a rank, or, where even
those do not fit, one sign a node: that of its rank in the worst state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text as Styled

from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.sentences import say
from unhang.view import sentences
from unhang.view.reading import RunReading
from unhang.wire.documents.live_state import STATES, LiveState
from unhang.wire.record_views import PHASES

STATE_SIGNS = {
    "busy": ("#", "green", say("busy")),
    "waiting": ("·", "cyan", say("waiting")),
    "idle": ("i", "yellow", say("not moving")),
    "silent": ("!", "bold red", say("silent")),
    "stopped": ("S", "bold red", say("stopped")),
    "dead": ("X", "bold red", say("failed")),
    "absent": ("?", "yellow", say("not joined yet")),
    "over": ("-", "dim", say("done")),
}
WORST_FIRST = ("dead", "stopped", "silent", "absent", "idle", "busy", "waiting", "over")
TONES = {
    sentences.CALM: "bold green",
    sentences.WAITING: "yellow",
    sentences.STALLED: "bold red",
    sentences.OVER: "bold",
}
MAX_GROUP_ROWS = 4
BAR = 24


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Columns and lines of the terminal."""

    width: int
    height: int


def render_screen(reading: RunReading, room: TerminalSize, localizer: Localizer) -> Group:
    """The screen of ``unhang view``, cut to the terminal's size."""
    state = reading.state
    if state is None:
        return Group(
            Styled(localizer.line(reading.name), "bold"),
            Styled(sentences.missing_state_reason(reading, localizer)),
        )
    told = sentences.headline(state, localizer, live=reading.live)
    top = [_head(state, localizer, room.width), _condition(state, reading, localizer), *_verdict(told, localizer)]
    foot = _foot(reading, localizer)
    bottom = [*_groups(state, localizer), *_pace(state, localizer), *_spent(state, localizer), foot]
    lines = room.height - sum(_lines(part, room.width) for part in (*top, *bottom)) - 3
    return Group(*top, Styled(), *_ranks(state, TerminalSize(room.width, max(4, lines)), localizer), Styled(), *bottom)


def _lines(part: Styled | Table, width: int) -> int:
    """Lines it takes; long ones are wrapped at blanks, which may cost one more."""
    if isinstance(part, Table):
        return part.row_count + 1
    cells = [cell_len(line) for line in part.plain.split("\n")]
    return sum(1 if length <= width else -(-length // max(1, width - 8)) for length in cells)


def _head(state: LiveState, localizer: Localizer, width: int) -> Styled:
    command = localizer.line(" ".join(state.run.command), width)
    return Styled.assemble((command, "bold"), "\n", ("   ".join(sentences.run_facts(state, localizer)), "dim"))


def _condition(state: LiveState, reading: RunReading, localizer: Localizer) -> Styled:
    now = sentences.condition(state, reading, localizer)
    line = Styled(now.text, TONES[now.tone])
    if now.left:
        line.append(f"   {now.left}", "bold red" if now.hurry else "yellow")
    return line


def _verdict(told: sentences.VerdictHead | None, localizer: Localizer) -> Iterator[Styled]:
    if told is not None:
        yield Styled(localizer.colon.join(filter(None, (told.word, told.about))), "bold")
        yield from (Styled(f"  {part}") for part in (told.claim, told.rest) if part)


def _ranks(state: LiveState, room: TerminalSize, localizer: Localizer) -> Iterator[Styled | Table]:
    count = len(state.ranks.rank)
    if count == 0:
        yield Styled(localizer.say(say("no rank has been seen yet")), "yellow")
    elif count < room.height and room.width >= 60:
        yield _table(state, localizer, room.width)
    else:
        yield from _grid(state, room, localizer)
        yield _legend(state, localizer)


def _table(state: LiveState, localizer: Localizer, width: int) -> Table:
    ranks = state.ranks
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    several = len(state.run.nodes) > 1
    heads = [
        say("rank"),
        *([say("node")] if several else []),
        say("state"),
        say("phase"),
        say("step"),
        say("step time"),
        say("place"),
    ]
    for head in heads:
        table.add_column(localizer.say(head), no_wrap=True)
    slowest = set(state.standing.laggards if state.standing is not None else ())
    for at, rank in enumerate(ranks.rank):
        word = STATES[ranks.state[at]]
        sign, style, text = STATE_SIGNS[word]
        waits_s = ranks.waits_s[at]
        waited = " " + localizer.say(duration(waits_s)) if waits_s >= 1 else ""
        label = state.labels[ranks.label[at]] if ranks.label[at] >= 0 else ""
        phase = localizer.word(PHASES[ranks.phase[at]]) + (f" ({localizer.line(label, 16)})" if label else "")
        node = [localizer.line(state.run.nodes[ranks.node[at]], 20) if ranks.node[at] >= 0 else ""] if several else []
        table.add_row(
            Styled(f"{rank}", "bold reverse" if rank in slowest else ""),
            *node,
            Styled(f"{sign} {localizer.say(text)}{waited}", style),
            phase,
            f"{ranks.step[at]:,}" if ranks.step[at] >= 0 else "–",
            sentences.seconds_text(ranks.step_s[at]) if ranks.step_s[at] > 0 else "–",
            _short_place(state.places[ranks.place[at]], width // 3) if ranks.place[at] >= 0 else "",
        )
    return table


def _grid(state: LiveState, room: TerminalSize, localizer: Localizer) -> Iterator[Styled]:
    cells = _cells_of_ranks(state)
    names = [str(rank) for rank in state.ranks.rank]
    if len(cells) > (room.height - 2) * _signs_per_row(room, names):
        yield Styled(localizer.say(say("one mark per node: its rank in the worst state")), "dim")
        cells, names = _cells_of_nodes(state)
    a_row = _signs_per_row(room, names)
    margin = len(names[-1]) if names else 1
    shown = max(1, room.height - 2)
    for start in range(0, min(len(cells), shown * a_row), a_row):
        line = Styled(f"{names[start]:>{margin}} ", "dim")
        for at, (sign, style) in enumerate(cells[start : start + a_row]):
            line.append(" " if at and at % 8 == 0 else "", "")
            line.append(sign, style)
        yield line
    if len(cells) > shown * a_row:
        yield Styled(localizer.say(say("… and {count} more", count=len(cells) - shown * a_row)), "dim")


def _signs_per_row(room: TerminalSize, names: Sequence[str]) -> int:
    """Signs in a row, in blocks of eight."""
    margin = len(names[-1]) + 1 if names else 2
    return max(8, (room.width - margin) // 9 * 8)


def _cells_of_ranks(state: LiveState) -> list[tuple[str, str]]:
    late = set(state.standing.laggards if state.standing is not None and state.standing.waited_s >= 1 else ())
    cells = []
    for rank, number in zip(state.ranks.rank, state.ranks.state, strict=True):
        sign, style, _ = STATE_SIGNS[STATES[number]]
        cells.append((sign, f"{style} reverse" if rank in late else style))
    return cells


def _cells_of_nodes(state: LiveState) -> tuple[list[tuple[str, str]], list[str]]:
    worst: dict[int, str] = {}
    for node, number in zip(state.ranks.node, state.ranks.state, strict=True):
        word = STATES[number]
        if node not in worst or WORST_FIRST.index(word) < WORST_FIRST.index(worst[node]):
            worst[node] = word
    return [STATE_SIGNS[word][:2] for word in worst.values()], [str(at) for at in range(len(worst))]


def _legend(state: LiveState, localizer: Localizer) -> Styled:
    counts = Counter(STATES[number] for number in state.ranks.state)
    line = Styled()
    for word in WORST_FIRST:
        if counts[word]:
            sign, style, text = STATE_SIGNS[word]
            line.append(f"{sign} ", style)
            line.append(f"{counts[word]:,} {localizer.say(text)}   ")
    return line


def _groups(state: LiveState, localizer: Localizer) -> Iterator[Styled | Table]:
    behind = sentences.ordered_groups(state)
    if not behind:
        return
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for head in (say("group"), say("ranks"), say("position"), say("behind")):
        table.add_column(localizer.say(head), no_wrap=True)
    for group in behind[:MAX_GROUP_ROWS]:
        table.add_row(*sentences.group_row(group, localizer))
    yield table
    if len(behind) > MAX_GROUP_ROWS:
        yield Styled(localizer.say(say("… and {count} more", count=len(behind) - MAX_GROUP_ROWS)), "dim")


def _pace(state: LiveState, localizer: Localizer) -> Iterator[Styled]:
    told = sentences.pace_sentence(state, localizer)
    if told is not None:
        yield Styled(told[0], "yellow" if told[1] else "dim")


def _spent(state: LiveState, localizer: Localizer) -> Iterator[Styled]:
    """What the ranks do now, as bars; and time in phases the program marked."""
    counts = Counter(PHASES[number] for number in state.ranks.phase)
    line = Styled(localizer.say(say("now")) + "  ", "dim")
    for phase, count in counts.most_common(4):
        share = count / max(1, len(state.ranks.phase))
        line.append("█" * max(1, round(BAR * share)), "blue")
        line.append(f" {localizer.word(phase)} {share:.0%}  ")
    if counts:
        yield line
    if text := sentences.marked_phases_text(state, localizer):
        yield Styled(text, "dim")


def _foot(reading: RunReading, localizer: Localizer) -> Styled:
    folder = localizer.line(reading.name)
    return Styled(
        f"{folder}   {localizer.say(say('Ctrl-C exits; the job keeps running'))}" if reading.live else folder, "dim"
    )


def _short_place(place: str, limit: int) -> str:
    file, _, line = place.rpartition(":")
    name = f"{Path(file).name}:{line}"
    return name if len(name) <= limit else f"…{name[-limit + 1 :]}"
