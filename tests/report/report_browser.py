"""A headless Chromium driven over WebDriver's plain HTTP, for the tests that need a real page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--window-size=1280,900",
]
KEYS = {
    "ArrowUp": "\ue013",
    "ArrowDown": "\ue015",
    "ArrowLeft": "\ue012",
    "ArrowRight": "\ue014",
    "Enter": "\ue007",
    "Tab": "\ue004",
}


def binaries() -> tuple[str, str] | None:
    """(Chromium, chromedriver) when both are installed."""
    chromium = next(
        (p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None
    )
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


class Browser:
    """One page in one browser. Use as a context manager; everything it started is ended."""

    def __init__(self, profile: Path) -> None:
        found = binaries()
        assert found is not None
        self._chromium, driver = found
        self._profile = profile
        self._driver = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._base = ""

    def __enter__(self) -> Browser:  # noqa: PYI034  # Self is in typing from Python 3.11 on
        assert self._driver.stdout is not None
        deadline = time.monotonic() + 30
        for line in self._driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                self._base = f"http://127.0.0.1:{port[1]}"
                break
            assert time.monotonic() < deadline
        options = {"binary": self._chromium, "args": [*FLAGS, f"--user-data-dir={self._profile}"]}
        wanted = {
            "capabilities": {
                "alwaysMatch": {
                    "browserName": "chrome",
                    "goog:chromeOptions": options,
                    "goog:loggingPrefs": {"browser": "ALL"},
                }
            }
        }
        self._base += "/session/" + self._post("/session", wanted)["sessionId"]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._request("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.wait(20)
            assert self._driver.stdout is not None
            self._driver.stdout.close()

    def open(self, page: Path) -> None:
        self.visit(page.as_uri())

    def visit(self, address: str) -> None:
        self._post("/url", {"url": address})

    def run(self, script: str, *words: Any) -> Any:
        return self._post("/execute/sync", {"script": script, "args": list(words)})

    def keys(self, *names: str) -> None:
        """Press keys in the element that has the focus."""
        typed = [{"type": kind, "value": KEYS.get(name, name)} for name in names for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": typed}]})

    def devtools(self, command: str, **params: Any) -> Any:
        return self._post("/goog/cdp/execute", {"cmd": command, "params": params})

    def log(self) -> list[str]:
        """What the console said: errors, refused loads, policy violations."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def _post(self, path: str, body: Any) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
