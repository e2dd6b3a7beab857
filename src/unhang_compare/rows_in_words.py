"""The rows of a comparison in words: what text and Markdown share."""

from __future__ import annotations

from unhang.sentences import Text, say
from unhang_compare.comparison import RANKS, Change, RunComparison, SideSummary, StepPart
from unhang_compare.conclusion import duration_text, part_place_text
from unhang_compare.rank_times import CARD, DEVICE, OWN, THREAD, WAITING

PARTS_SHOWN, CHANGES_SHOWN = 8, 20

HEADLINES: dict[str, Text] = {
    "grew": say("SLOWER"),
    "shrank": say("FASTER"),
    "same": say("SAME"),
    "not-told": say("UNDECIDED"),
}
_KINDS: dict[str, Text] = {
    OWN: say("own work"),
    WAITING: say("waits for other ranks"),
    DEVICE: say("waits for its GPU"),
}
_ON: dict[str, Text] = {CARD: say("on the GPU"), THREAD: say("on another thread")}


def headline(comparison: RunComparison) -> Text:
    """One word for the answer; ranks differ, they do not become slower."""
    if comparison.kind == RANKS and comparison.answer == "grew":
        return say("DIFFERENT")
    return HEADLINES[comparison.answer]


def title(comparison: RunComparison, *, grew: bool) -> Text:
    """Of a list of parts."""
    if comparison.kind == RANKS:
        return say("More on the second ranks, per step") if grew else say("More on the first ranks, per step")
    return say("What grew, per step") if grew else say("What shrank, per step")


def side_line(side: SideSummary) -> Text:
    """What a side holds."""
    if side.steps is None:
        return say("{name}: no steps", name=side.name)
    steps = side.steps
    return say(
        "{name}: steps {first}-{last}, {median} per step, half of them {low} to {high}",
        name=side.name,
        first=steps.first_step,
        last=steps.last_step,
        median=duration_text(steps.median_s),
        low=duration_text(steps.low_s),
        high=duration_text(steps.high_s),
    )


def parts_shown(parts: tuple[StepPart, ...]) -> tuple[StepPart, ...]:
    """Without threads that only carry data for the one that waits: that one is shown."""
    return tuple(part for part in parts if part.on != THREAD or part.kind != WAITING)


def part_amount(part: StepPart) -> str:
    """``+18.1 ms``."""
    grew = part.difference.grew_s
    return f"{'+' if grew > 0 else '-'}{duration_text(abs(grew))}"


def part_place(part: StepPart) -> str:
    """Where, and what is called there."""
    called = "" if part.where is None or not part.called else f" → {part.called}"
    return f"{part_place_text(part)}{called}"


def part_notes(part: StepPart) -> tuple[Text, ...]:
    """Whether it works or waits, in which phase, on which ranks, how much before and now."""
    found: list[Text] = [_KINDS[part.kind]]
    if part.on in _ON:
        found.append(_ON[part.on])
    if part.ranks:
        found.append(say("{ranks:who}", ranks=part.ranks))
    before, after = (duration_text(max(0.0, value)) for value in (part.difference.before_s, part.difference.after_s))
    found.append(say("{before} before, {after} now", before=before, after=after))
    return tuple(found)


def change_values(change: Change) -> Text:
    """``2.7.1 → 2.8.0``."""
    if change.before is None:
        return say("new: {after}", after=change.after)
    if change.after is None:
        return say("removed, was {before}", before=change.before)
    return say("{before} → {after}", before=change.before, after=change.after)
