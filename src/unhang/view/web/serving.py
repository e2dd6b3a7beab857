"""``unhang view --web``: serve until Ctrl-C, and open a browser where there is one."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from unhang.view.listening import is_loopback
from unhang.view.web.server import WebServer


def serve_until_interrupted(server: WebServer, tell: Callable[[str], None], *, open_browser: bool) -> None:
    """Until Ctrl-C. ``tell`` is given the address once it is listened at."""
    threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.2}).start()
    door: Path | None = None
    try:
        tell(server.address)
        door = _open(server) if open_browser and has_screen() else None
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.shutdown()
        server.server_close()
        if door is not None:
            with suppress(OSError):
                door.unlink()


def has_screen(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser of this machine would be seen by whoever asks."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _open(server: WebServer) -> Path | None:
    """Through a private file that leads on: a command line can be read by everybody on the machine, and the address
    holds the token."""
    address = server.address
    if not is_loopback(server.listening.host):
        address = address.replace(f"//{server.listening.host}", "//127.0.0.1", 1)
    handle, name = tempfile.mkstemp(prefix="unhang-", suffix=".html")  # mkstemp makes it 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address, quote=True)}">\n')
    door = Path(name)
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(door.as_uri())
    return door
