"""Every folder of ``tests/machines`` through ``unhang check``: what must be found, fine, or impossible to look at, is.

``machine.toml`` and ``root/`` are the stored machine (see ``unhang.host.machine``); ``expected.toml`` holds cases::

    [[case]]
    command = ["torchrun", "train.py"]    what is planned (optional)
    only = "limits,topology"              the checks asked (optional)
    assume = ["torch=2.8"]                (optional)
    status = "misconfigured"              must be this (optional)
    exit_code = 1                         must be this (optional)
    not_suggested = ["NCCL_TIMEOUT"]      names the block to paste must not hold (optional)
    absent = ["/dev/shm"]                 subjects no finding may have (optional); ["*"]: no finding at all
    [[case.finding]]                      a finding that must be there: every key given is equal; `says` and
                                          `because` are words of its sentences
    [[case.checked]] check = "limits", says = "8192 MB"       a fine answer whose sentence holds these words
    [[case.not_checked]] check = "limits", says = "…"         likewise for what could not be looked at
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli

from unhang.cli.main import main

MACHINES = Path(__file__).parents[1] / "machines"


def cases() -> Iterator[Any]:
    for folder in sorted(path for path in MACHINES.iterdir() if path.is_dir()):
        stored = tomli.loads((folder / "expected.toml").read_text(encoding="utf-8"))
        for number, case in enumerate(stored["case"]):
            yield pytest.param(folder, case, id=f"{folder.name}-{case.get('name', number)}")


def answers(folder: Path, case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], int]:
    words = ["check", "--machine", str(folder), "--format", "json"]
    words += ["--only", case["only"]] if "only" in case else []
    words += [word for pair in case.get("assume", ()) for word in ("--assume", pair)]
    words += ["--", *case["command"]] if "command" in case else []
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    assert ended.value.code in (0, 1) or printed.out, printed.err
    return json.loads(printed.out), int(ended.value.code)


def is_wanted(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    words = {"says": found["summary"], "because": " ".join(found["because"])}
    return all(wanted[key] in words[key] if key in words else found[key] == wanted[key] for key in wanted)


@pytest.mark.parametrize(("folder", "case"), list(cases()))
def test_stored_machine(folder: Path, case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    verdict, code = answers(folder, case, capsys)

    for wanted in case.get("finding", ()):
        hits = [found for found in verdict["findings"] if is_wanted(found, wanted)]
        assert hits, (wanted, verdict["findings"])
    for kind, field in (("checked", "what"), ("not_checked", "what")):
        for wanted in case.get(kind, ()):
            of_check = [item[field] for item in verdict[kind] if item["check"] == wanted["check"]]
            assert any(wanted.get("says", "") in text for text in of_check), (wanted, verdict[kind])
    kept = set((verdict["suggested"] or {"set": {}})["set"])
    assert not kept & set(case.get("not_suggested", ())), verdict["suggested"]
    subjects = {found["subject"] for found in verdict["findings"]}
    absent = set(case.get("absent", ()))
    assert not (subjects if "*" in absent else subjects & absent), verdict["findings"]
    assert verdict["status"] == case.get("status", verdict["status"])
    assert code == case.get("exit_code", code)
