"""Gives pip the metadata that a source archive carries (``PKG-INFO``), and builds nothing: to know what it downloads,
pip would else run the program's own build, which wants a compiler, or PyTorch."""

from __future__ import annotations

import email
import re
import shutil
import sys
from pathlib import Path
from typing import Any

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:  # noqa: ARG001
    """Nothing is built: nothing is needed."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:  # noqa: ARG001
    """Copy it; gives the name of its folder."""
    told = email.message_from_string(Path("PKG-INFO").read_text(encoding="utf-8"))
    folder = Path(metadata_directory, f"{re.sub(r'[-_.]+', '_', told['Name'])}-{told['Version']}.dist-info")
    folder.mkdir(parents=True)
    shutil.copy("PKG-INFO", folder / "METADATA")
    return folder.name


__legacy__ = sys.modules[__name__]
"""What pip asks for where an archive names no backend."""
