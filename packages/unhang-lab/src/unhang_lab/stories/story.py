"""What a story is: a job as its users wrote it, and what must be found at each of four moments."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from unhang.errors import UsageError
from unhang.findings import Cause, Certainty, Status

STORIES = ("llama-recipes", "openclip", "llama-factory", "torchtitan", "grpo")
"""In the order in which they are told."""
STORY_FILE = "story.toml"


class Moment(str, enum.Enum):
    """When unhang is asked."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"
    FIXED = "fixed"


Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
"""Of a command."""
AboveZero = Annotated[float, msgspec.Meta(gt=0)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of ``story.toml``: its words are the fields, and no others."""


class ExpectedFinding(Table, frozen=True, kw_only=True):
    """What a verdict must say; what is None or empty is not asked. ``story_file.py`` explains each."""

    cause: Cause | None = None
    status: Status | None = None
    certainty: Certainty = Certainty.POSSIBLE
    ranks: tuple[int, ...] | None = None
    fewest: re.Pattern[str] | None = None
    file: str = ""
    lines: tuple[str, ...] | str = msgspec.field(name="line", default=())
    check: str = ""
    subject: str = ""
    says: tuple[str, ...] | str = ()
    remedy: str = ""
    change: tuple[str, ...] | str = ()

    def __post_init__(self) -> None:
        if self.cause is None and self.status is None:  # a log alone may leave the cause open, and must say so
            raise ValueError("cause is missing")
        if self.fewest is not None and not {"rank", "count"} <= set(self.fewest.groupindex):
            raise ValueError("fewest must have the groups (?P<rank>…) and (?P<count>…)")
        for name in ("lines", "says", "change"):
            if isinstance(one := getattr(self, name), str):
                msgspec.structs.force_setattr(self, name, (one,))


class BeforeAlso(Table, frozen=True, kw_only=True):
    """One ``unhang check``: its options, and the findings that must be among its answers. ``command``: what the script
    of the story starts, where that is not the story's own command."""

    findings: Annotated[tuple[ExpectedFinding, ...], msgspec.Meta(min_length=1)] = msgspec.field(name="finding")
    options: tuple[str, ...] = ()
    command: Words | None = None


class Before(BeforeAlso, frozen=True, kw_only=True):
    """The first of them; ``also``: others, on a stored machine or with other options."""

    also: tuple[BeforeAlso, ...] = ()


class During(ExpectedFinding, frozen=True, kw_only=True):
    """``unhang run``. ``then``: the job runs on until it ``ends`` by itself, or we ``stop`` it once it was judged."""

    within_s: AboveZero
    options: tuple[str, ...] = ()
    then: Literal["ends", "stop"] = "ends"


class After(Table, frozen=True, kw_only=True):
    """``unhang diagnose``: of the job's log alone, and of the run folder."""

    log: ExpectedFinding
    bundle: ExpectedFinding


class ImprovedFigure(Table, frozen=True, kw_only=True):
    """The step time that both runs print often: how many times the first of it the last may still be, as a share of
    what it was in the stalled run. Each run is its own measure, so that a busy machine makes neither look better."""

    pattern: re.Pattern[str]
    at_most_share: AboveZero

    def __post_init__(self) -> None:
        if self.pattern.groups != 1:
            raise ValueError("pattern must have one group: the figure")


class Fixed(Table, frozen=True, kw_only=True):
    """The patched job: what it is run with, and what its output must show."""

    change: tuple[str, ...]
    shows: tuple[re.Pattern[str], ...]
    patch: str = "fixed.patch"
    prepare: tuple[Words, ...] = ()
    command: Words | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    better: ImprovedFigure | None = None


class Story(Table, frozen=True, kw_only=True):
    """One folder of ``stories/``."""

    folder: Path
    title_en: str = msgspec.field(name="title")
    title_zh: str = ""
    command: Words
    ranks: Annotated[int, msgspec.Meta(gt=0)]
    limit_s: AboveZero
    before: Before
    during: During
    after: After
    fixed: Fixed
    prepare: tuple[Words, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    by_chance: bool = False
    permits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def title(self) -> dict[str, str]:
        """By language, ``en`` always."""
        return {"en": self.title_en, **({"zh": self.title_zh} if self.title_zh else {})}


def stories_root() -> Path:
    """Where the stories are: at the root of a checkout, else in the installed package."""
    checkout = Path(__file__).resolve().parents[5]
    if (checkout / "pyproject.toml").is_file() and (checkout / "stories").is_dir():
        return checkout / "stories"
    return Path(__file__).with_name("folders")


def story_folder(name: str, root: Path | None = None) -> Path:
    """The folder of the story ``name``.

    Raises:
        UsageError: there is no such story.
    """
    folder = (root or stories_root()) / name
    if name not in STORIES or not (folder / STORY_FILE).is_file():
        raise UsageError(f"There is no story {name!r}.", next_step="unhang demo --list")
    return folder


def available_stories(root: Path | None = None) -> tuple[str, ...]:
    """Names of the stories that are there."""
    return tuple(name for name in STORIES if ((root or stories_root()) / name / STORY_FILE).is_file())
