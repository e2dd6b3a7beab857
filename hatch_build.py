"""The extra ``lab``, which ``pyproject.toml`` cannot say: a folder of the clone there, a release everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Extras(MetadataHookInterface):
    """All extras, that of the lab from the clone; a wheel that is built from an sdist has those of the sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put them where hatchling looks."""
        lab = Path(self.root, "packages", "unhang-lab")
        metadata["optional-dependencies"] = {"lab": [f"unhang-lab @ {lab.as_uri()}"], **self.config["extras"]}


class Released(BuildHookInterface[Any]):
    """An sdist leaves the clone: its extra, and that of wheels built from it, is the release of the same version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Replace the clone's folder."""
        self.metadata.core.optional_dependencies["lab"] = [f"unhang-lab=={self.metadata.version}"]
