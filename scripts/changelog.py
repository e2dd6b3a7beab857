"""Fold the fragments of ``changelog.d`` into ``CHANGELOG.md``: ``python scripts/changelog.py 0.2.0``."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "new-rule": "New rules",
    "false-alarm": "False alarms removed",
    "missed-hang": "Stalls no longer missed",
    "verdict": "Verdicts",
    "reader": "Evidence",
    "command": "Commands",
    "speed": "Speed and memory",
    "break": "Changes you must know",
}
TITLE = "# Changelog\n"


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Fragment files by kind, in the order of their names.

    Raises SystemExit for a file whose kind is not in ``KINDS``.
    """
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        kind = path.name.split(".")[-2]
        if kind not in KINDS:
            sys.exit(f"{path.name}: {kind} is no kind of change; see changelog.d/README.md")
        found[kind].append(path)
    return found


def section(version: str, found: dict[str, list[Path]], day: datetime.date) -> str:
    """The changelog's section of one version."""
    parts = [f"## {version} ({day.isoformat()})\n"]
    for kind, paths in found.items():
        if paths:
            parts.append(f"### {KINDS[kind]}\n")
            parts.append("\n".join(f"- {' '.join(path.read_text(encoding='utf-8').split())}" for path in paths) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Write the section on top of the changelog and delete its fragments."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = fragments(ROOT / "changelog.d")
    path = ROOT / "CHANGELOG.md"
    older = path.read_text(encoding="utf-8").removeprefix(TITLE) if path.exists() else ""
    new = section(sys.argv[1], found, datetime.datetime.now(datetime.timezone.utc).date())
    path.write_text(f"{TITLE}\n{new}{older}", encoding="utf-8")
    for paths in found.values():
        for fragment in paths:
            fragment.unlink()


if __name__ == "__main__":
    main()
