"""What ``pyproject.toml`` cannot say: the extra ``lab``, and a description that a package page can show.

The extra is a folder of the clone there, a release everywhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"(!\[[^\]]*\]\()((?!https?:)[^)]*\))")
_LINK = re.compile(r"(?<!!)(\[([^\]]+)\]\()((?!https?:|#)[^)]*\))")
"""In the README, a picture and a link whose address is a path in this repository."""


class Extras(MetadataHookInterface):
    """All extras, that of the lab from the clone; a wheel that is built from an sdist has those of the sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put them where hatchling looks."""
        lab = Path(self.root, "packages", "unhang-lab")
        metadata["optional-dependencies"] = {"lab": [f"unhang-lab @ {lab.as_uri()}"], **self.config["extras"]}
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(readme, source)}


def described(readme: str, source: str) -> str:
    """``readme`` as a package page can show it: its paths lead to ``source``, or links are words."""
    if not source:
        return _LINK.sub(r"\2", _PICTURE.sub("", readme))
    return _LINK.sub(rf"\1{source}/blob/HEAD/\3", _PICTURE.sub(rf"\1{source}/raw/HEAD/\2", readme))


class Released(BuildHookInterface[Any]):
    """An sdist leaves the clone: its extra, and that of wheels built from it, is the release of the same version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Replace the clone's folder."""
        self.metadata.core.optional_dependencies["lab"] = [f"unhang-lab=={self.metadata.version}"]
