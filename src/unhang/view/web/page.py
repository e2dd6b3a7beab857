"""The page itself: one document with its style and script inside; its policy lets nothing else in, and nothing out."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from unhang import __version__
from unhang.report.html.embedding import data_block, policy_hash
from unhang.report.html.page import ASSETS as REPORT_ASSETS
from unhang.report.localizer import Localizer
from unhang.view.screen import STATE_SIGNS
from unhang.view.web.page_texts import PAGE_TEXTS, SCRIPT_TEXTS
from unhang.watch.reporting.live_snapshot import STATES
from unhang.wire.record_views import PHASES

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
    style, script = _assets()
    data = {
        "words": {key: localizer.say(text) for key, text in SCRIPT_TEXTS.items()},
        "states": [
            {"word": word, "text": localizer.say(STATE_SIGNS[word][2]), "sign": STATE_SIGNS[word][0]} for word in STATES
        ],
        "phases": [localizer.word(phase) for phase in PHASES],
    }
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html.j2").render(
        lang=localizer.lang,
        version=__version__,
        style=Markup(style),  # noqa: S704  # our own file
        script=Markup(script),  # noqa: S704  # our own files
        data=Markup(data_block(data)),  # noqa: S704  # cannot close its element, see data_block
        words={key: localizer.say(text) for key, text in PAGE_TEXTS.items()},
    )


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
