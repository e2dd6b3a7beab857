"""What ``pyproject.toml`` cannot say: the unhang of the same version, and the stories at the root of the clone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

IN_THE_PACKAGE = "unhang_lab/stories/folders"


class SameVersion(MetadataHookInterface):
    """The lab uses what no release promises to keep: it needs the unhang that was released with it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put it before what else is needed."""
        metadata["dependencies"] = [f"unhang=={metadata['version']}", *self.config["dependencies"]]


class Stories(BuildHookInterface[Any]):
    """In a clone they are read where they lie; an sdist holds them where wheels built from it want them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to what is built."""
        stories = Path(self.root, "..", "..", "stories").resolve()
        if version == "standard" and stories.is_dir():
            to = IN_THE_PACKAGE if self.target_name == "wheel" else f"src/{IN_THE_PACKAGE}"
            build_data["force_include"][str(stories)] = to
