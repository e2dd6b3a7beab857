"""From verdict.json on standard input to one short, redacted message. Used by the scripts beside it."""

from __future__ import annotations

import json
import re
import signal
import sys
import urllib.request

LIMIT_S = 10
WHOLE_LIMIT_S = 30
LONGEST = 300
FOLDERS = re.compile(r"(?<![\w:])/(?:[^/\s:'\"]+/)+")
CHINESE = {
    "hang": "卡住",
    "slow": "变慢",
    "crash": "崩溃",
    "misconfigured": "配置有误",
    "unknown": "原因未明",
    "certain": "确定",
    "likely": "很可能",
    "possible": "可能",
    ": ": "：",
    ", ": "、",
    "{} ({})": "{}（{}）",
    ", rank {}": "，rank {}",
    "Change: ": "这样改：",
    "The wait times out in {:.0f} s": "等待将在 {:.0f} 秒后超时",
}


def read_verdict() -> dict:
    """What unhang gives to --on-hang-exec: in the language of unhang run --lang."""
    return json.load(sys.stdin)


def short(path: str) -> str:
    """Paths lose their folders: a chat is no place for them."""
    return path.rsplit("/", 1)[-1]


def lines_of(verdict: dict) -> list[str]:
    """At most four lines: what, who and where, what to change, how long is left."""
    words = CHINESE if verdict.get("lang") == "zh" else {}

    def said(word: str) -> str:
        return words.get(word, word)

    nothing = {"cause": "unknown", "ranks": [], "certainty": "possible"}
    first = verdict["findings"][0] if verdict["findings"] else nothing
    ranks = said(", ").join(str(rank) for rank in first["ranks"][:8]) + (" …" if len(first["ranks"]) > 8 else "")
    where = first.get("where") or {}
    place = f" · {short(where['file'])}:{where['line']}" if where.get("file") else ""
    status = words.get(verdict["status"], verdict["status"].upper())
    lines = [f"{status}{said(': ')}{FOLDERS.sub('', first.get('summary', first['cause']))}"]
    known = first["cause"] != "unknown"
    cause = said("{} ({})").format(first["cause"], said(first["certainty"])) if known else first["cause"]
    lines.append(cause + (said(", rank {}").format(ranks) if ranks else "") + place)
    if first.get("remedies"):
        lines.append(said("Change: ") + FOLDERS.sub("", first["remedies"][0]["title"]))
    if verdict.get("killed_in_s") is not None:
        lines.append(said("The wait times out in {:.0f} s").format(verdict["killed_in_s"]))
    return [cut(line) for line in lines]


def cut(line: str) -> str:
    """One line, and no longer than a chat shows at once."""
    line = " ".join(line.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def post(url: str, body: dict) -> int:
    """0 when the other side took it. The address holds a secret and is never printed."""
    signal.alarm(WHOLE_LIMIT_S)  # whatever the other side does, this process is over then
    try:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            said = answer.read(10_000).decode("utf-8", "replace")
            print(answer.status, said)
            found = json.loads(said) if said.startswith("{") else {}
    except OSError as error:
        print(f"not sent: {getattr(error, 'reason', error)}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"not sent, or not understood: {type(error).__name__}", file=sys.stderr)
        return 1
    return 1 if found.get("errcode", found.get("code", 0)) != 0 else 0
