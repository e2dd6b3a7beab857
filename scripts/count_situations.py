"""Write ``knowledge/situations.tsv``: what the logs of incidents with an established cause look like to unhang.

    python scripts/count_situations.py FOLDER...

Each FOLDER holds ``cases.jsonl`` (``id``, ``url``, ``cause``, ``scored``, ``log``) as in ``benchmarks/batches``.
Incidents that stand in the table already and in no FOLDER are kept with the features they were counted with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from unhang.diagnosis.diagnose import diagnose
from unhang.diagnosis.differential import features_of
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.knowledge.known_incidents.incident_counts import CountedIncident, load_counted_incidents

TABLE = Path(__file__).resolve().parents[1] / "src" / "unhang" / "knowledge" / "situations.tsv"
HEAD = "# id, cause, link, features of its log (facts/incident_features.py); written by scripts/count_situations.py\n"


def counted(folder: Path) -> Iterator[CountedIncident]:
    """The incidents of ``folder`` whose cause is established and shows in the log."""
    for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if not case["scored"] or case["cause"] in (None, "unknown"):
            continue
        facts = build_facts(read_evidence([str(folder / case["log"])]))
        yield CountedIncident(case["id"], case["cause"], case["url"], features_of(facts, diagnose(facts).findings))


def main(folders: list[str]) -> None:
    """Count, and write the table anew."""
    known = {situation.id: situation for situation in load_counted_incidents()} if TABLE.exists() else {}
    for folder in folders:
        known |= {situation.id: situation for situation in counted(Path(folder))}
    rows = (
        f"{s.id}\t{s.cause}\t{s.link}\t{' '.join(sorted(f.replace(' ', '_') for f in s.features))}\n"
        for _, s in sorted(known.items())
    )
    TABLE.write_text(HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
