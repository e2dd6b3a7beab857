"""How a job says that it ended well, and how large it says that it is: launchers, schedulers, shells and the ranks.

Nothing here is a cause. An ending is a proof of health only beside everything else that was read
(facts/endings/good_endings.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from unhang.evidence.items import LogEnding
from unhang.evidence.logs.content.shell_lines import (
    LaunchedProcesses,
    ShellReader,
    is_pipe,
    launched_processes,
    number_of_nodes,
    starts_programs,
)
from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.knowledge.messages import rank_list
from unhang.late_pattern import late_pattern
from unhang.sentences import shortened

MAX_ENDINGS = 20_000
"""So many endings of a log are kept: a line a rank of the largest jobs."""
TRAINER_SUMMARY = "{'train_runtime': "
"""How the line of the transformers Trainer begins that sums up its training."""


_CODE = late_pattern(
    r"\b(?:exit|return)[ _-]?(?:code|status|value)\s*(?:=|:|of|was|is)?\s*[\"']?(?P<a>-?\d{1,3})(?![\w.%/:-])"
    r"|\bexit(?:ed|s)?\s*(?:with\s+(?:(?:exit |status )?code\s+|status\s+)?|=|:)\s*(?P<b>-?\d{1,3})(?![\w.%/:-])"
    r"|(?:退出|返回)(?:状态)?代?码\s*[:：=]?\s*(?P<f>-?\d{1,3})(?![\w.%/:-])"
    r"|\b(?:rc|ret|exitcode)\s*[=:]\s*(?P<c>-?\d{1,3})(?![\w.%/:-])"
    r"|\bReceived (?P<d>\d{1,3}) from exiting process\b|\bExit_status=(?P<e>-?\d{1,3})\b",
    re.IGNORECASE,
)
_WELL = late_pattern(
    r"\b(?:successfully (?:finished|completed|exited|ended)|(?:finish|complet|exit|end|terminat)(?:es|s|ed)?"
    r" (?:successfully|normally|cleanly)|succeeded|normal termination)\b|\bSUCCEEDED\b|\btraining SUCCESS\b",
    re.IGNORECASE,
)
_ACCOUNTED = late_pattern(
    r"^\s*(?:JobID\s+)?(?P<name>\d[\w.+\[\]-]*(?<!\.extern))\s.*?\b(?P<state>[A-Z_]{6,})\+?\s+(?:ExitCode\s+)?"
    r"(?P<code>\d{1,3}:\d{1,3})(?!\S)"
)
"""``sacct`` prints 0:0 of what runs still, too."""
_NCCL_TESTS_RESULT = late_pattern(r"^# Out of bounds values : (?P<wrong>\d+) (?:OK|FAILED)\b")
"""nccl-tests and rccl-tests say it once the errors of all ranks are added up (``src/common.cu``)."""
_MEASURES = late_pattern(r"^#\s+Rank\s+(?P<rank>\d{1,6})\s+(?:Group\s+\d+\s+)?Pid\s")
"""A line for every rank that will take part, before the first of their measurements."""
_LISTING = late_pattern(r"^NAME\s+(?:[A-Z]+\s+)*?(?:STATUS|STATE|PHASE)\b")
_LISTED = late_pattern(r"^(?P<name>[\w./-]+)\s+(?P<pod>\d+/\d+\s+)?(?P<state>[A-Z][\w:/]+)\s+[\d(<]")
_LISTED_WELL = frozenset(("Succeeded", "Complete", "Completed"))
_SCHEDULED = late_pattern(
    r"\b[Jj]ob\s+(?:['\"<(]|\S*\d)|\b[A-Z]\w*Job\b|\bstatus: SUCCEEDED|^\s*Successfully completed\.\s*$"
)
_JOB = late_pattern(r"\bjob\b|^State:\s+COMPLETED\b", re.IGNORECASE)
_AGENT = late_pattern(
    r"\bworker group (?:successfully )?finished\b(?! \((?!\w*\.?SUCCEEDED))|\bWorkerState\.SUCCEEDED\b"
    r"|\bReporting training SUCCESS\b"
    r"|\btorchelastic\.worker\.status\.SUCCEEDED\b"
)
_ONE = late_pattern(
    r"\b(?:process|pid|worker|child|subprocess|container|pod)[ #:=]*(?P<name>\d[\w-]*)\b", re.IGNORECASE
)
_RANK = late_pattern(r"\brank[ :#=_]*(\d{1,6})\b", re.IGNORECASE)
_OF_A_HELPER = late_pattern(
    r"\b(?:\w*loader|\w*compil\w*|extension|subprocess|thread|eval\w*|valid\w*|server|hook|prolog|epilog|upload\w*"
    r"|download\w*|checkpoint\w*|convert\w*|merg\w*|preproc\w*|token\w*|build\w*|install\w*)\b",
    re.IGNORECASE,
)
_OF_THE_JOB = late_pattern(
    r"train|job|process|\bmain\b|script|command|program|launch|run\b|python|node|rank|worker|\bpod|container|\btask"
    r"|tun(?:e|ing)\b|child|\bmpi|\bsrun\b|accelerate|deepspeed|elastic|^State:"
    r"|^\s*(?-i:[A-Z_]*)\W*$",
    re.IGNORECASE,
)
"""Whose exit code is told: what started the job, a part of it, or nobody. Another program's code tells nothing."""
_BEFORE_THE_WORDS = late_pattern(r"^(?:[\d\s:.,TZ+/|\[\]-]|\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR)\b|(?<=\d)UTC)+")
_NOT_THIS_END = late_pattern(
    r"\?\s*$|\b(?:will|would|should|must|may|might|if|when|until|unless|whether|expect\w*|assert\w*|except|but|hardly"
    r"|nearly|almost|are all|previous\w*|earlier|former|depend\w*|submi\w+)\b",
    re.IGNORECASE,
)
"""It is asked for, foretold, told of most, or of what ran before."""
_TASKS = late_pattern(r"\btasks? (?P<ranks>\d[\d,-]*): (?:Completed|exited normally)\s*$")
_EVERY = late_pattern(
    r"\b(?:all|every)(?: of)?(?: the)? (?:\d{1,6} )?"
    r"(?:ranks?|process(?:es)?|workers?|tasks|nodes|replicas|gpus)\b.{0,30}?\b(?:finished|done|completed?|exited|ended|(?:passed|reached|joined|left|cleared)\b.{0,30}"
    r"\b(?:final|last|end|exit|closing|shutdown)\b.{0,9}\bbarrier)\b",
    re.IGNORECASE,
)
_NOT_THE_JOB = late_pattern(
    r"\b(?:un\w+|in\w*complete\w*|not|fail\w*|errors?|abort\w*|killed|cancel\w*|before|wait\w*|until|when|will"
    r"|start\w*|load\w*|download\w*|upload\w*|init\w*|connect\w*|build\w*|compil\w*|install\w*|token\w*|preproc\w*"
    r"|prepar\w*|warm\w*|fetch\w*|sav(?:e|ed|ing)|writ\w*|generat\w*|captur\w*|profil\w*|setup|set up|register\w*"
    r"|merg\w*|convert\w*|epoch|step|iteration|batch|shard\w*|remaining|estimated|eta)\b",
    re.IGNORECASE,
)
_WORK = r"(?:training|pre-?training|fine-?tuning|trainer|run|job|work|everything|script|main|program)"
_END = r"(?:done|finished|completed?|ended|over|exiting|exited|succeeded)"
_ENDED = late_pattern(
    rf"\b{_WORK}\b[^.]{{0,30}}?\b{_END}\b|\b(?:done|finished|completed) {_WORK}\b"
    r"|\bexit(?:ing|ed|s)? (?:normally|cleanly|successfully|gracefully)\b|\bclean exit\b"
    r"|(?:训练|任务|作业|全部|程序)(?:已经?|正常|全部|运行)?(?:完成|结束|退出)",
    re.IGNORECASE,
)
_LEFT = late_pattern(
    r"\bprocess group (?:was |is )?(?:destroyed|cleaned up)\b|\bdestroyed (?:the )?process group\b", re.IGNORECASE
)
_BARE = late_pattern(
    r"(?:^|\] |\) |\bINFO:? |\brank[ _#]?\d+(?:/\d+)?\W{1,3})\W*(?:is |all |now |has )?"
    r"(?:done|finished|completed?|exiting|exited|bye|goodbye|success)(?: (?:now|normally|successfully))?\W*$",
    re.IGNORECASE,
)
_BARE_LENGTH = 160
_SENTENCE_END = late_pattern(r"(?<=[a-z][.!]) +(?=[A-Z])")
"""A word that denies an end does so in its own sentence: ``Training completed. Do not forget to …``."""
_NUMBERED_RANK = late_pattern(
    r"(?:INFO|DEBUG|WARN(?:ING)?|ERROR)\b[^()]{0,80}\] \((?P<rank>\d{1,6})/(?P<size>\d{1,6})\) "
)
_MEMBER = late_pattern(r"\bGLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<size>\d{1,6})")
_RANK_OF = late_pattern(r"\b[Rr]ank[ :#]*(?P<rank>\d{1,6}) ?(?:/|of|out of) ?(?P<size>\d{1,6})\b")
_PROCESS_INDEX = late_pattern(r"^Process index: (?P<rank>\d{1,6})$")
_SIZE = late_pattern(
    r"(?:(?<![\w-])|(?<=dist_)|(?<=global_)|(?<=distributed_))(?<!parallel )"
    r"world[_ -]?size['\"]?\s?(?:[:=]| of| is|)\s?(?P<a>\d{1,6})\b(?!.{0,40}\bgroup_name\b)"
    r"|\b(?:global_world_sizes=|role_world_size\": )\[(?P<d>\d{1,6})\b"
    r"|\b(?:num[_ ]processes|number of processes|total gpus|num gpus(?: used)?|total (?:ranks|processes))['\"]?"
    r"\s?[:=]\s?(?P<b>\d{1,6})\b"
    r"|\b(?:starting with|launching|spawning|initializing|starting) (?P<c>\d{1,6}) (?:distributed )?"
    r"(?:processes|ranks|tasks|trainers)\b",
    re.IGNORECASE,
)
_LAUNCH_HINTS = ("nproc", "_procs", "nodes", "machines", "run ", "exec ", "composer", "accelerate")
_SIZE_HINTS = ("orld", "WORLD", "rocesses", "ranks", "asks", "rainers", "GPUs", "gpus")
_END_HINTS = (
    "uccess", "ucceed", "SUCCE", "xit", "EXIT", "one", "ONE", "nish", "omplet", "COMPLETE", "nded", "bye", "rc=",
    "ret=", "Out of bounds", "train_runtime", "return", "estroyed", "normal", "完成", "结束", "退出", "返回", "FAILED",
    "TIMEOUT", "CANCEL", "arrier", " 0:0",
)  # fmt: skip
_SHELL_HINTS = ("$ ", "# ")
_RANK_HINTS = ("] (", "MEMBER: ")


def may_state_end(text: str) -> bool:
    """Whether ``text`` may tell of a start, a size or an end: of no other line :class:`EndingReader` learns anything,
    unless the line before makes it listen. The digits of ``text`` do not matter."""
    return (
        text[:1] in ("+", "#")
        or text.startswith(("Process index: ", "NAME"))
        or ("ank" in text and ("/" in text or " of " in text))
        or any(hint in text for hints in _HINTS for hint in hints)
    )


_HINTS = (_END_HINTS, _SIZE_HINTS, _LAUNCH_HINTS, _SHELL_HINTS, _RANK_HINTS)


def numbered_rank(text: str) -> int | None:
    """The rank of lines that name it with the number of ranks (``INFO [train.py:10] (3/6) …``, Lightning's members)."""
    found = _numbered(text)
    return numbers.rank(found["rank"]) if found is not None else None


def _numbered(text: str) -> re.Match[str] | None:
    found = None
    if "] (" in text:
        found = _NUMBERED_RANK.search(text[:200])
    elif "MEMBER: " in text:
        found = _MEMBER.search(text)
    elif text.startswith("Process index: "):
        return _PROCESS_INDEX.match(text)
    return found if found is not None and _is_rank_of(found) else None


def _is_rank_of(found: re.Match[str]) -> bool:
    rank, size = numbers.rank(found["rank"]), numbers.rank(found["size"])
    return rank is not None and size is not None and rank < size


class EndingReader:
    """Give it the lines of one log in order."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._shell = ShellReader()
        self._started = LaunchedProcesses()
        self._listing = False
        self._piped = False
        self._tee_line = 0
        self.sizes: set[int] = set()
        """How many ranks the job has, as its lines tell."""
        self.command_line = 0
        """The last command that ran a program of the job: what ends after it is that one."""
        self.started_line = 0
        """The last line that starts a job or tells its size."""

    def holds_all(self, processes: int) -> bool:
        """Whether one launcher has the whole job: its command says so, or it told of as many ``processes``."""
        size = max(self.sizes, default=None)
        return self._started.alone or (size is not None and size in (self._started.here, processes))

    @property
    def expects_continuation(self) -> bool:
        """Whether the next line is to be read whatever stands in it."""
        return self._shell.waits or self._listing

    def take(self, text: str, line: int, attempt: int) -> Iterator[LogEnding]:
        """What ``text`` tells of an end; what it tells of a start is kept."""
        where = Source(self._source, line)
        for said in self._take(text, line):
            quoted, since = shortened(text, 300), self.command_line
            yield replace(said, source=where, text=quoted, attempt=attempt, since_line=since)

    def _take(self, text: str, line: int) -> Iterator[LogEnding]:
        bare = text.strip()
        code = self._shell.exit_code(bare)
        if code is not None:
            number, begun = code
            if begun is not None:
                yield LogEnding("launch", number == 0, here=begun.here, size=begun.size, alone=begun.alone)
            return
        ran = self._shell.programs
        command = self._shell.take(text)
        if command is not None:
            self.command_line = line if self._shell.programs > ran else self.command_line
            self._tee_line = line if command.startswith("tee ") else self._tee_line
            self._take_start(command, line, is_command=True)
            return
        self._take_start(text, line, is_command=False)
        if (row := self._listed(bare)) is not None:
            yield row
            return
        if not any(hint in text for hint in _END_HINTS):
            return
        for said in _statements_in_line(bare):
            if said.who == "launch" and said.well and self._is_piped and _CODE.search(bare) is not None:
                continue
            begun = self._started if said.who == "launch" else LaunchedProcesses()
            yield replace(said, here=said.here or begun.here, size=begun.size, alone=begun.alone)

    @property
    def _is_piped(self) -> bool:
        """An exit code is that of what the job's output went through (``set -x`` shows both ends of a pipe)."""
        traced = bool(self._tee_line) and abs(self._tee_line - self.command_line) == 1
        return (self._piped or traced) and not self._shell.pipefail

    def _listed(self, text: str) -> LogEnding | None:
        """A row of the table that the lines before began."""
        if text.startswith("NAME") and _LISTING.match(text):
            self._listing = True
            return None
        found = _LISTED.match(text)
        self._listing = self._listing and found is not None
        if found is None or not (self._listing or found["pod"]):
            return None
        well = found["state"] in _LISTED_WELL
        if found["pod"]:  # another pod that runs still may be of another job
            return LogEnding("process", name=found["name"]) if well else None
        return LogEnding("job", well, name=found["name"])

    def _take_start(self, text: str, line: int, *, is_command: bool) -> None:
        begun = (
            launched_processes(text)
            if is_command or any(hint in text for hint in _LAUNCH_HINTS)
            else LaunchedProcesses()
        )
        if begun.here is not None:
            self._started, self._piped = begun, is_pipe(text)
        elif self._started.here is not None and "nodes" in text and (count := number_of_nodes(text)) is not None:
            self._started = replace(self._started, size=self._started.here * count, alone=count == 1)
        size = begun.size or _size_in(text)
        if size:
            self.sizes.add(size)
        elif beside := _size_beside_rank(text):
            self.sizes.add(beside)
        elif text.startswith("#") and (found := _MEASURES.match(text)) is not None:
            self.sizes.add((numbers.rank(found["rank"]) or 0) + 1)
        if size or (is_command and starts_programs(text)):
            self.started_line = line


def _size_in(text: str) -> int | None:
    found = _SIZE.search(text) if any(hint in text for hint in _SIZE_HINTS) else None
    return numbers.rank(next(filter(None, found.groups()))) if found is not None else None


def _size_beside_rank(text: str) -> int | None:
    """Of lines that may stand anywhere in the log: a rank that names itself with the number of all."""
    found = _numbered(text) or (_RANK_OF.search(text) if "ank" in text and ("/" in text or " of " in text) else None)
    if found is None or "size" not in found.re.groupindex or not _is_rank_of(found):
        return None
    return numbers.rank(found["size"])


def _statements_in_line(text: str) -> Iterator[LogEnding]:
    """What an ordinary line tells of an end."""
    told = _told_by_program(text)
    if told is not None:
        yield told
    elif (found := _CODE.search(text)) is not None:
        well = next(group for group in found.groups() if group) == "0"
        if not well or (not _NOT_THIS_END.search(text) and _is_of_the_job(text, found)):
            yield from _subjects_of(text, _JOB, well=well)
    else:
        for sentence in _SENTENCE_END.split(text):
            if not _NOT_THE_JOB.search(sentence) and not _NOT_THIS_END.search(sentence):
                yield from _statements_in_words(sentence)


def _told_by_program(text: str) -> LogEnding | None:
    """What a scheduler, a launcher or a library tells in a form of its own; None for every other line."""
    if (found := _NCCL_TESTS_RESULT.match(text)) is not None:
        return LogEnding("all", numbers.integer(found["wrong"]) == 0)
    if (found := _ACCOUNTED.search(text)) is not None:
        return LogEnding("job", found["state"] == "COMPLETED" and found["code"] == "0:0", name=found["name"])
    if (found := _TASKS.search(text)) is not None:
        return LogEnding("rank", ranks=rank_list(found["ranks"]))
    if text.startswith(TRAINER_SUMMARY):
        return LogEnding("rank", words=True)
    return LogEnding("launch") if _AGENT.search(text) else None


def _is_of_the_job(text: str, code: re.Match[str]) -> bool:
    return _OF_THE_JOB.search(_BEFORE_THE_WORDS.sub("", text[: code.start()]) + text[code.end() :]) is not None


def _statements_in_words(text: str) -> Iterator[LogEnding]:
    if _EVERY.search(text):
        yield LogEnding("all", words=True)
        return
    said = next(_subjects_of(text, _SCHEDULED, well=True), None) if _WELL.search(text) else None
    if said is not None and said.who != "launch":
        yield replace(said, words=said.who == "rank")
        return
    left = _LEFT.search(text) is not None
    if left or _ENDED.search(text) or (len(text) <= _BARE_LENGTH and _BARE.search(text)):
        named = {rank for found in _RANK.finditer(text) if (rank := numbers.rank(found[1])) is not None}
        ranks = tuple(named) if len(named) == 1 else ()
        yield LogEnding("group" if left else "rank", ranks=ranks, words=not left)


def _subjects_of(text: str, job: re.Pattern[str], *, well: bool) -> Iterator[LogEnding]:
    if (found := _RANK.search(text)) is not None and (rank := numbers.rank(found[1])) is not None:
        yield LogEnding("rank", well, ranks=(rank,))
    elif _OF_A_HELPER.search(text):
        return
    elif (found := _ONE.search(text)) is not None:
        yield LogEnding("process", well, name=found["name"])
    else:
        yield LogEnding("job" if job.search(text) else "launch", well)
