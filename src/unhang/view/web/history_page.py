"""``/history``: who was named again, with the chance that this is chance, and the last runs."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.history.database import open_history
from unhang.history.place import history_place
from unhang.history.text import HEADS, named_again, run_cells, suspect_text
from unhang.report.localizer import Localizer
from unhang.sentences import say
from unhang.view.web.page import render

DAYS, RUNS = 30, 50


def history_page(localizer: Localizer, environment: Mapping[str, str]) -> str:
    """The HTML document.

    Raises:
        UnhangError: the history cannot be read.
    """
    with open_history(history_place(environment)) as history:
        runs, suspects = history.runs(limit=RUNS), named_again(history.suspects(DAYS))
    words = {
        "title": say("Earlier runs"),
        "named": say("Named repeatedly in {days} days", days=DAYS),
        "nobody": say("No host, GPU or image was named in more than one run."),
        "none": say("No runs yet: unhang run records one line per run here."),
    }
    return render(
        "history.html.j2",
        localizer,
        words={name: localizer.say(text) for name, text in words.items()},
        heads=[localizer.say(head) for head in HEADS],
        suspects=[localizer.say(suspect_text(one)) for one in suspects],
        rows=[run_cells(run, localizer) for run in runs],
    )
