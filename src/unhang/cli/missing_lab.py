"""The lab is a distribution of its own: what its verbs say where it is missing, and the command that installs it.

pip notes where it took unhang from (PEP 610): from there the lab of the same version comes too.
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from unhang import __version__
from unhang.errors import MissingExtra

_FOLDER = "packages/unhang-lab"
_RELEASE = f"unhang-lab=={__version__}"


def missing_lab(verb: str) -> MissingExtra:
    """Why ``unhang VERB`` cannot begin, and what to type, in one line."""
    found = _installed()
    why = "which is not installed" if found is None else f"and not version {found}, which is installed"
    return MissingExtra(
        f"{verb} needs the lab of version {__version__}, {why}: pip install {shlex.join(_wanted(_came_from()))}"
    )


def _installed() -> str | None:
    try:
        return version("unhang-lab")
    except PackageNotFoundError:
        return None


def _came_from() -> dict[str, Any]:
    """What pip noted of the source of unhang; empty where it came from an index, or was not installed at all."""
    try:
        noted = distribution("unhang").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(noted) if noted else {}


def _wanted(source: dict[str, Any]) -> list[str]:
    """Words for ``pip install``: from the same commit, folder of wheels or clone; else the release."""
    address = source.get("url", "")
    if commit := source.get("vcs_info"):
        # not the extra: a wheel of this commit that pip kept names a folder that is gone
        return [f"{commit['vcs']}+{address}@{commit['commit_id']}#subdirectory={_FOLDER}"]
    if not address.startswith("file:"):
        return [_RELEASE]
    path = Path(url2pathname(urlsplit(address).path))
    if "archive_info" in source:
        return ["--find-links", str(path.parent), _RELEASE]
    editable = ["--editable"] if source.get("dir_info", {}).get("editable") else []
    return [*editable, f"{path}[lab]"] if (path / _FOLDER).is_dir() else [_RELEASE]
