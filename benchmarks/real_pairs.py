"""Real programs just before and just after the fix of a stall: what ``unhang check`` says of each.

    python -m benchmarks real-pairs SET FOLDER

SET is one of ``benchmarks/pairs/*.toml``: which repository, the commits before and after, the command, and what was
wrong where, written before the tool was run on it by somebody who had not read it. FOLDER holds the trees as
``NAME/before`` and ``NAME/after``; they are read where they lie, nothing of them is run or stored. Found is a finding
of an accepted cause with a place in the lines that were wrong and a word of what was; still reported is one of such a
cause in the same function afterwards. The table it prints stands in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETS = Path(__file__).with_name("pairs")
LIMIT_S = 300
AROUND = 3
"""Lines beside those that were wrong: of the condition or the call, whichever the answer points at."""


def answer_of(pair: Mapping[str, Any], tree: Path) -> dict[str, Any]:
    """What ``unhang check`` says of the tree, as JSON. Raises ``SystemExit`` where it says nothing."""
    words = shlex.split(pair["command"].replace("{root}", str(tree)))
    environment = {name: value.replace("{root}", str(tree)) for name, value in pair.get("environment", {}).items()}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("unhang")), "check", "--format", "json", "--", *words],
        cwd=tree,
        env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if not done.stdout.strip():
        raise SystemExit(f"{tree}: no answer: {done.stderr.strip()[-300:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _places(finding: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    for place in (finding.get("where"), finding.get("waiter_where")):
        if place:
            yield place["file"], place["line"] or 0, place.get("function") or ""
    for item in finding.get("evidence", ()):
        yield item.get("source") or "", item.get("line") or 0, ""


def _is_about(pair: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    text = json.dumps(finding, ensure_ascii=False)
    return finding["cause"] in pair["causes"] and any(word in text for word in pair["words"])


def is_found(pair: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    """A finding of an accepted cause in the lines that were wrong, and about them."""
    first, last = pair["lines"]
    return _is_about(pair, finding) and any(
        file.endswith(pair["file"]) and first - AROUND <= line <= last + AROUND for file, line, _ in _places(finding)
    )


def is_still_reported(pair: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    """A finding of an accepted cause in the function that was mended, and about the same."""
    name = pair["function"].rpartition(".")[2]
    return _is_about(pair, finding) and any(
        file.endswith(pair["file"]) and function.rpartition(".")[2] == name for file, _, function in _places(finding)
    )


def _serious(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [f for f in answer["findings"] if f["severity"] == "stops" and f["certainty"] != "possible"]


def rows(pairs: Mapping[str, Mapping[str, Any]], folder: Path) -> Iterator[str]:
    """The table's lines."""
    yield "| fix | what was wrong | where | found before | still reported after | other *likely* findings that stop |"
    yield "|---|---|---|---|---|---|"
    for name, pair in pairs.items():
        head = (
            f"| [{pair['repository']}]({pair['pull_request']}) | {pair['kind']} | `{pair['file']}:{pair['lines'][0]}` |"
        )
        if not (folder / name / "before").is_dir() or not (folder / name / "after").is_dir():
            yield f"{head} could not look: not in the folder | | |"
            continue
        before, after = (answer_of(pair, folder / name / side) for side in ("before", "after"))
        found = [f for f in before["findings"] if is_found(pair, f)]
        still = [f for f in after["findings"] if is_still_reported(pair, f)]
        said = f"✓ {found[0]['certainty']}" if found else "✗"
        others = len([f for f in _serious(after) if f not in still])
        yield f"{head} {said} | {'yes' if still else 'no'} | {others} |"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks real-pairs", description=__doc__)
    parser.add_argument("set", choices=sorted(path.stem for path in SETS.glob("*.toml")))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    pairs = tomllib.loads((SETS / f"{asked.set}.toml").read_text("utf-8"))
    for line in rows(pairs, asked.folder.resolve()):
        print(line)
    return 0
