"""The page itself: one document with its style and script inside; its policy lets nothing else in, and nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from unhang import __version__
from unhang.report.html.embedding import data_block, policy_hash
from unhang.report.html.page import ASSETS as REPORT_ASSETS
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say
from unhang.view.screen import STATE_SIGNS
from unhang.wire.documents.live_state import STATES
from unhang.wire.record_views import PHASES

PAGE_TEXTS: Mapping[str, Text] = {
    "skip": say("Skip to the ranks"),
    "theme": say("Dark or light"),
    "begin": say("Reading the run"),
    "report": say("Read the report"),
    "history": say("Earlier runs"),
    "script": say("This page needs JavaScript; unhang view shows the same in the terminal."),
    "ranks_title": say("Ranks"),
    "grid_help": say("One mark per rank, grouped by node. Arrow keys move, Enter or a click shows the rank."),
    "waits_title": say("Who waits for whom"),
    "find_rank": say("Find rank"),
    "groups_title": say("Positions"),
    "group": say("group"),
    "ranks": say("ranks"),
    "position": say("position"),
    "behind": say("behind"),
    "time_title": say("Ranks over time"),
    "time_help": say(
        "Drag or use the arrow keys to move, Ctrl and the wheel or + and − to zoom, 0 to "
        "show all; click a rank to see it."
    ),
    "time": say("time"),
    "zoom_in": say("Zoom in"),
    "zoom_out": say("Zoom out"),
    "fewer": say("Fewer ranks"),
    "more_ranks": say("More ranks"),
    "all": say("Show all"),
    "machine_of": say("Machine"),
    "close": say("Close"),
}

SCRIPT_TEXTS: Mapping[str, Text] = {
    "rank": say("rank"),
    "ranks": say("ranks"),
    "node": say("node"),
    "step": say("step"),
    "phase": say("phase"),
    "does": say("state"),
    "group": say("group"),
    "waits": say("waiting"),
    "late": say("waited for"),
    "stands_at": say("place"),
    "a_step": say("step time"),
    "trouble": say("silent, stopped or failed"),
    "stalled": say("stalled"),
    "verdict": say("verdict"),
    "now_title": say("What the ranks are doing"),
    "last_title": say("What the ranks did last"),
    "more_series": say("More series, flat or not drawn"),
    "gone": say(
        "The server has stopped or cannot be reached. This is its last state; the run itself may still be going."
    ),
    "refused": say("The server refuses this address: use the full one that unhang view printed, with its token."),
    "no_rank": say("no rank has been seen yet"),
    "no_series": say("No time series of this run was saved: this is what the page has seen since it was opened."),
    "more": say("more not shown"),
    "now_stack": say("Stack now, from its record"),
    "look_stack": say("Stack at the last sample"),
    "no_stack": say("No stack was saved: ranks are sampled when a rank waits."),
    "log": say("Last log lines"),
    "no_log": say(
        "The run folder has no log of this rank alone: with torchrun --log-dir DIR "
        "--redirects 3 every rank has one, and a verdict copies it."
    ),
    "positions": say("Positions"),
    "no_run": say("Nothing is known about this run yet"),
    "seconds": say("{count} s", count="{}"),
    "minutes": say("{count} min", count="{}"),
    "hours": say("{time} h", time="{}"),
}


ASSETS = Path(__file__).parent
SCRIPTS = ("paint.js", "grid.js", "timeline.js", "rank.js", "page.js")


@lru_cache(maxsize=1)
def report_policy() -> str:
    """That of ``report.html``: its own script only, and in no origin of ours."""
    script = policy_hash((REPORT_ASSETS / "page.js").read_text("utf-8").strip())
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; sandbox allow-scripts"
    )


def page(localizer: Localizer) -> str:
    """The HTML document of the run's page, with style, script and texts inside."""
    _, script = _assets()
    data = {
        "words": {key: localizer.say(text) for key, text in SCRIPT_TEXTS.items()},
        "states": [
            {"word": word, "text": localizer.say(STATE_SIGNS[word][2]), "sign": STATE_SIGNS[word][0]} for word in STATES
        ],
        "phases": [localizer.word(phase) for phase in PHASES],
        "other": PHASES.index("other"),
    }
    return render(
        "page.html.j2",
        localizer,
        script=Markup(script),  # noqa: S704  # our own files
        data=Markup(data_block(data)),  # noqa: S704  # cannot close its element, see data_block
        words={key: localizer.say(text) for key, text in PAGE_TEXTS.items()},
    )


def style_policy() -> str:
    """That of a page with our style and no script."""
    style, _ = _assets()
    return f"default-src 'none'; style-src '{policy_hash(style)}'; base-uri 'none'; frame-ancestors 'none'"


def render(template: str, localizer: Localizer, **values: Any) -> str:
    """A template of this folder with our style."""
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    style = Markup(_assets()[0])  # noqa: S704  # our own file
    return environment.get_template(template).render(lang=localizer.lang, version=__version__, style=style, **values)


def page_policy() -> str:
    """Its content security policy."""
    style, script = _assets()
    return (
        f"default-src 'none'; style-src '{policy_hash(style)}'; script-src '{policy_hash(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@lru_cache(maxsize=1)
def _assets() -> tuple[str, str]:
    style = (ASSETS / "page.css").read_text("utf-8").strip()
    parts = "\n".join((ASSETS / name).read_text("utf-8").strip() for name in SCRIPTS)
    return style, f'"use strict";\n(() => {{\n{parts}\n}})();'
