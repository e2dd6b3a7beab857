"""``unhang view [DIR|URL]``: look at a run, live or finished, in the terminal or on a page."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Language

if TYPE_CHECKING:
    from rich.console import Group

    from unhang.report.layout.console import Console
    from unhang.report.localizer import Localizer
    from unhang.view.reading import RunReading

REFRESH_S = 1.0


def view(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR|URL]",
            help="Run folder, one in a store (s3://…), or the address printed by unhang view --web;"
            " default: the newest in unhang-runs.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Serve a web page until Ctrl-C.")] = False,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="With --web: address; port 0 picks a free one.")
    ] = "127.0.0.1:0",
    no_open: Annotated[bool, typer.Option("--no-open", help="With --web: do not open a browser.")] = False,
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Write the run as a Perfetto trace (.json or .json.gz)."),
    ] = None,
    lang: Language = None,
) -> None:
    """Show a run: who waits for whom, how far each rank is, and how much time is left.

    Exit codes: 0 shown, 2 there is no run to show.

    Examples:
    unhang view
    unhang view unhang-runs/20261124-220301 --once
    unhang view --web --listen 127.0.0.1:8080 --no-open
    """
    from unhang.report.language import resolve_language
    from unhang.report.layout.console import Console
    from unhang.report.layout.terminal import underlying_stream
    from unhang.report.localizer import Localizer
    from unhang.report.redaction.redact import Redactor

    localizer = Localizer(resolve_language(lang), Redactor())
    console = Console(highlight=False)
    with ExitStack() as copies:
        folder, read = _source(place, copies)
        if perfetto is not None:
            _export(read(folder), perfetto, localizer)
        elif web:
            _serve(folder, read, listen, localizer, open_browser=not no_open)
        elif once or not underlying_stream(sys.stdout).isatty():
            _one_screen(folder, read, console, localizer)
        else:
            read(folder)  # a folder that is none is said before the screen is taken
            _follow(folder, read, console, localizer)


def _source(place: str | None, copies: ExitStack) -> tuple[Path, Callable[[Path], RunReading]]:
    from unhang.evidence.found_files import is_url
    from unhang.view.last_moment import read_with_its_end
    from unhang.view.reading import latest_run, run_in
    from unhang.view.remote import RemoteRun, is_address

    if place is None:
        return latest_run(), read_with_its_end
    if is_address(place):
        return Path(place), RemoteRun(place).read
    if is_url(place):
        return _copied(place, copies)
    return run_in(Path(place)), read_with_its_end


def _copied(url: str, copies: ExitStack) -> tuple[Path, Callable[[Path], RunReading]]:
    """A run folder in a store, as it is now."""
    from dataclasses import replace

    from unhang.cli.output.progress_bar import ReadingBar
    from unhang.evidence.objects.local_copy import local_copy
    from unhang.view.last_moment import read_with_its_end
    from unhang.view.reading import MAX_BYTES, run_in

    with ReadingBar() as bar:
        copy = copies.enter_context(local_copy(url, lambda name, size: _is_shown(name) and size <= MAX_BYTES, bar.tell))
    return run_in(copy.place), lambda folder: replace(read_with_its_end(folder), url=copy.name)


def _is_shown(name: str) -> bool:
    """Not the evidence, of which there is most and which only a diagnosis reads."""
    return not {"dumps", "stacks", "logs", "source"} & set(name.split("/")[:-1])


def _one_screen(folder: Path, read: Callable[[Path], RunReading], console: Console, localizer: Localizer) -> None:
    """A watcher that was not asked yet needs a moment for its first answer."""
    from unhang.view.screen import TerminalSize, render_screen

    reading = read(folder)
    if reading.live:
        time.sleep(2 * REFRESH_S)
        reading = read(folder)
    console.print(render_screen(reading, TerminalSize(console.width, max(24, console.height)), localizer))


def _follow(folder: Path, read: Callable[[Path], RunReading], console: Console, localizer: Localizer) -> None:
    from rich.live import Live

    from unhang.view.screen import TerminalSize, render_screen

    def drawn() -> Group:
        return render_screen(read(folder), TerminalSize(console.width, console.height), localizer)

    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(drawn(), refresh=True)
                time.sleep(REFRESH_S)
        except KeyboardInterrupt:
            return


def _serve(
    folder: Path, read: Callable[[Path], RunReading], listen: str, localizer: Localizer, *, open_browser: bool
) -> None:
    from unhang.errors import UsageError
    from unhang.report.language import translate
    from unhang.sentences import say
    from unhang.view.listening import listening_with_token
    from unhang.view.remote import RemoteRun
    from unhang.view.web.responses import RunResponses
    from unhang.view.web.server import WebServer, serve_until_interrupted

    if isinstance(getattr(read, "__self__", None), RemoteRun):
        raise UsageError("--web serves a run folder, not another server", next_step="open that address in a browser")
    read(folder)
    server = WebServer(listening_with_token(listen), RunResponses(folder, localizer, read))

    def tell(address: str) -> None:
        text = say("serving the run at {address} – Ctrl-C stops the page, not the job", address=address)
        print(f"unhang: {translate(text, localizer.lang)}", flush=True)  # not redacted: the token is the point
        sys.stdout.flush()

    serve_until_interrupted(server, tell, open_browser=open_browser)


def _export(reading: RunReading, target: Path, localizer: Localizer) -> None:
    from unhang.sentences import say
    from unhang.view.perfetto import write_trace

    count = write_trace(reading, target)
    text = say("{count} events written to {file}; see https://ui.perfetto.dev", count=f"{count:,}", file=str(target))
    print(localizer.say(text), flush=True)
