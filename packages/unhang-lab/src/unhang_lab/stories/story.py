"""What a story is: a job as its users wrote it, and what must be found at each of four moments."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """What a verdict must say; what is None or empty is not asked. ``story_file.py`` explains each."""

    cause: Cause | None = None
    status: Status | None = None
    certainty: Certainty = Certainty.POSSIBLE
    ranks: tuple[int, ...] | None = None
    fewest: re.Pattern[str] | None = None
    file: str = ""
    line: tuple[str, ...] = ()
    check: str = ""
    subject: str = ""
    says: tuple[str, ...] = ()
    remedy: str = ""
    change: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Before:
    """``unhang check``: its options, and the findings that must be among its answers. ``command``: what the script
    of the story starts, where that is not the story's own command.
    """

    options: tuple[str, ...]
    findings: tuple[ExpectedFinding, ...]
    also: tuple[BeforeAlso, ...] = ()
    command: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class BeforeAlso:
    """One more ``unhang check``: on a stored machine, or with other options."""

    options: tuple[str, ...]
    findings: tuple[ExpectedFinding, ...]
    command: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class During:
    """``unhang run``. ``then``: the job runs on until it ``ends`` by itself, or we ``stop`` it once it was judged."""

    wanted: ExpectedFinding
    within_s: float
    options: tuple[str, ...] = ()
    then: str = "ends"


@dataclass(frozen=True, slots=True)
class ImprovedFigure:
    """A figure that both runs print often: how many times the first of it the last may still be, as a share of what it
    was in the stalled run. Each run is its own measure, so that a busy machine makes neither look better."""

    what: str
    pattern: re.Pattern[str]
    at_most_share: float


@dataclass(frozen=True, slots=True)
class Fixed:
    """The patched job: what it is run with, and what its output must show."""

    change: tuple[str, ...]
    shows: tuple[re.Pattern[str], ...]
    patch: str = "fixed.patch"
    prepare: tuple[tuple[str, ...], ...] = ()
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    better: ImprovedFigure | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """One folder of ``stories/``. ``title``: by language, ``en`` always."""

    folder: Path
    title: Mapping[str, str]
    command: tuple[str, ...]
    ranks: int
    limit_s: float
    before: Before
    during: During
    log: ExpectedFinding
    bundle: ExpectedFinding
    fixed: Fixed
    prepare: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    by_chance: bool = False
    permits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name


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
