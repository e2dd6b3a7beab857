"""``unhang diagnose`` as users type it, and whether two of its answers are the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.object_store.cluster import Cluster
from benchmarks.object_store.evidence import BUCKET
from benchmarks.object_store.processes import Ended, run

URL = f"s3://{BUCKET}"
_PLACE = "EVIDENCE"


@dataclass(frozen=True, slots=True)
class Answer:
    """One run: how it ended, its verdict with ``address`` replaced, seconds by phase (clock, the head's processor)."""

    ended: Ended
    verdict: dict[str, Any]
    phases: dict[str, tuple[float, float]]

    @property
    def lead(self) -> str:
        """The first finding in a few words."""
        top = (self.verdict.get("findings") or [{}])[0]
        ranks = top.get("ranks") or []
        shown = f"{ranks}" if len(ranks) < 9 else f"{len(ranks)} ranks"
        return f"{self.verdict.get('status')}: {top.get('cause')} {shown}, {top.get('certainty')}"

    def same_as(self, other: Answer) -> bool:
        """Whether both say the same, word for word, wherever their evidence lay."""
        return bool(self.verdict) and self.verdict == other.verdict


def diagnose(
    address: str,
    scratch: Path,
    environment: Mapping[str, str],
    *options: str,
    limit_s: float = 900.0,
    meanwhile: Callable[[float], None] | None = None,
) -> Answer:
    """Diagnose what lies at ``address`` (a folder or a URL), with the time each phase took."""
    phases = scratch / "phases.json"
    phases.unlink(missing_ok=True)
    words = [sys.executable, "-m", "benchmarks.object_store.timed_diagnose", str(phases), address, *options]
    ended = run([*words, "--format", "json"], scratch, environment, limit_s=limit_s, meanwhile=meanwhile)
    text = ended.out.replace(address.rstrip("/"), _PLACE)
    verdict = json.loads(text) if text.startswith("{") else {}
    return Answer(ended, verdict, json.loads(phases.read_text()) if phases.exists() else {})


def with_engine(engine: str, cluster: Cluster | None = None) -> tuple[str, ...]:
    """The options that choose who reads."""
    return ("--engine", engine, *(() if cluster is None else ("--engine-address", cluster.address)))
