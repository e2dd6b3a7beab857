"""Commands as a terminal or ``set -x`` shows them, which of them start a job, and which one an exit code is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.logs.lines.line_parts import PATTERN_CHARS
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

_PROMPT = late_pattern(
    r"^(?:\([\w.-]+\) )?(?:\[?[\w.-]+@[\w.-]+[:\s][^$#]{0,80}[$#]|\S{0,40}\$|\++) (?P<command>[^\s$].*)$"
)
_STATUS = late_pattern(r"\$(?:\?|\{\?\})")
_SAYS = late_pattern(
    r"(?P<how>;|&&|\|\||&(?=\s))\s*(?:echo|printf)\s+(?P<quote>[\"']?)(?P<words>.*?)(?P=quote)\s*(?:;.*)?$"
)
_SEVERAL = late_pattern(r";\s*(?!\s*$)")
"""The exit code is that of the last one."""
_PIPE = late_pattern(r"(?<!\|)\|(?!\|)")
_DAMAGED = late_pattern(r"\d>&\d?\s+[^\s|&;<>)]|2>&(?!\d(?:[\s|&;)]|$))")
"""Behind the redirection of errors comes an operator or nothing; what was one is gone, a pipe maybe."""
_WHOLE_CHARS = PATTERN_CHARS // 2
"""Of a longer line the end may not have been read."""
_LAUNCHER = late_pattern(
    r"(?:^|[\s;&(/<])(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun"
    r"|jsrun|aprun|colossalai|composer|fairseq-train|fairseq-hydra-train|llamafactory-cli|trl|swift|axolotl|xtuner"
    r"|litgpt|fabric|lightning|tune run|python[\d.]*|bash|sh)(?=\s)"
    r"|^(?:\w+=\S* |time |nohup |exec )*[\w./-]+\.(?:sh|py)(?=\s)"
)
_SPANS_NODES = late_pattern(r"(?:^|[\s;&/<])(?:mpirun|mpiexec|srun|horovodrun|jsrun|aprun)\s|--hostfile\b")
_NO_JOB = late_pattern(
    r"&\s*$|\|\||^\s*(?:sbatch|qsub|bsub|screen|tmux|tail|cat|less|grep|head|sed|awk|pip3?|conda|apt|git|ls|vim|nano|cd"
    r"|which|rm|mkdir|cp|mv|scp|rsync|kubectl|watch|ps|kill|pkill|python[\d.]* (?:-c|-V|--version|-m pip))\b"
)
_PROGRAM = late_pattern(r"\.(?:py|sh|ya?ml|json|toml)\b|\s-m\s+\S|[\w.~-]*/\w")
"""What a launcher runs; a command without it was cut."""
_GOES_ON = late_pattern(r"\s*(?:[|<>;&]|2>|--?[a-z])")
"""A line behind a command that begins as the rest of one: a viewer wrapped it."""
_OWN_PROGRAM = late_pattern(r"^(?:\w+=\S* +|(?:env|time|nohup|exec) +)*[\w.~-]*/\S")
"""Run by its path."""
_OF_ONE_NODE = late_pattern(r"(?:^|[\s;&/<])(?:torchrun|torch\.distributed\.(?:run|launch)|composer|deepspeed)\s")
_PER_NODE = late_pattern(
    r"(?:nproc[_-]per[_-]node|num_local_procs)['\"]?\s{0,8}[=: ]\s{0,8}(\d{1,6})\b|\bcomposer\s.{0,40}?-n (\d{1,6})\b"
)
_NODES = late_pattern(
    r"(?:\bnnodes|--num[_-]machines|\bmax_nodes)['\"]?\s{0,8}[=: ]\s{0,8}(?:\d{1,6}:)?(\d{1,6})\b(?!\.\d)"
)
_TASKS = late_pattern(
    r"(?:srun|jsrun|aprun)\s.*?(?:--ntasks[= ]|-n ?)(\d{1,6})\b"
    r"|(?:mpirun|mpiexec|horovodrun)\s.*?-(?:np|n|-np) (\d{1,6})\b"
    r"|accelerate launch\s.*?--num_processes[= ](\d{1,6})\b"
)
_ONE_OF_MANY = late_pattern(r"\b(?:RANK|WORLD_SIZE)=|--(?:node|machine)[_-]rank\b|--rank\b|--world[_-]size\b")


@dataclass(frozen=True, slots=True)
class LaunchedProcesses:
    """What a launcher starts: ``here`` processes with this command, of ``size`` in the whole job; None: not known."""

    here: int | None = None
    size: int | None = None
    alone: bool = False
    """This command starts the whole job, however many processes it has."""


@dataclass(slots=True)
class _ShownCommand:
    text: str
    status: re.Pattern[str] | None = None
    """How its exit code looks in the line that prints it."""
    spoken: str = ""
    """What is printed where it ended with 0."""


def launched_processes(text: str) -> LaunchedProcesses:
    """How many processes a command line, or a launcher's table of settings, says that it starts."""
    nodes = number_of_nodes(text)
    tasks = numbers.rank(next(filter(None, found.groups()))) if (found := _TASKS.search(text)) is not None else None
    found = _PER_NODE.search(text)
    per_node = numbers.rank(next(filter(None, found.groups()))) if found is not None else None
    if _SPANS_NODES.search(text) is not None:
        total = per_node * (nodes or tasks or 1) if per_node else tasks
        return LaunchedProcesses(total, total, alone=True)
    if tasks:
        return LaunchedProcesses(tasks // (nodes or 1), tasks)
    alone = nodes == 1 or (nodes is None and _ONE_OF_MANY.search(text) is None)
    size = (
        per_node * (nodes or 1) if per_node and (alone or nodes) else None
    )  # no job has 0 nodes: how many is not known
    return LaunchedProcesses(per_node, size, alone=alone and _OF_ONE_NODE.search(text) is not None)


def is_pipe(text: str) -> bool:
    """Whether a command's output goes through another one, whose exit code the shell tells."""
    return _PIPE.search(text) is not None


def number_of_nodes(text: str) -> int | None:
    """How many nodes a line says that the job has."""
    found = _NODES.search(text)
    return numbers.rank(found[1]) if found is not None else None


def starts_programs(text: str) -> bool:
    """Whether a command starts programs and waits for them."""
    return _LAUNCHER.search(f"{text} ") is not None and _NO_JOB.search(text) is None


class ShellReader:
    """Follows the commands of one log and what they ended with."""

    def __init__(self) -> None:
        self._before: _ShownCommand | None = None
        self._open: _ShownCommand | None = None
        self._continued = ""
        self.pipefail = False
        """The shell was told to end a pipe with the code of the first command that failed."""
        self._typed = False
        """A command stands in the line before."""
        self.programs = 0
        """How many of them run a program of the job: what only looks at files, queues and codes is none."""

    @property
    def waits(self) -> bool:
        """The next line may go on with a command, or print what one ended with."""
        shown = self._open
        return (
            self._typed
            or bool(self._continued)
            or (shown is not None and (shown.status is not None or bool(shown.spoken)))
        )

    def take(self, text: str) -> str | None:
        """The command that the line shows, from all its lines; empty where it goes on in the next; None for others."""
        typed, self._typed = self._typed, False
        if self._continued:
            text, self._continued = f"{self._continued} {text.strip()}", ""
        elif ("$ " in text or "# " in text or text[:1] == "+") and (prompt := _PROMPT.match(text)) is not None:
            text = prompt["command"]
        elif typed and self._before is not None and _GOES_ON.match(text):
            self._before.text, self._typed = f"{self._before.text} {text.strip()}", True
            return ""
        else:
            return None
        if text.endswith("\\"):
            self._continued = text[:-1].strip()
            return ""
        self._command(text.lstrip() if len(text) >= _WHOLE_CHARS else text.strip())  # blanks may hide the cut
        return text

    def _command(self, text: str) -> None:
        self._typed = True
        self.pipefail = self.pipefail or "pipefail" in text
        asks = re.match(r"(?:echo|printf)\s+[\"']?(?P<words>[^\"']*)", text)
        if asks is not None and _STATUS.search(asks["words"]):
            self._open = self._before
            if self._open is not None:
                self._open.status = _printed(asks["words"])
            return
        self.programs += starts_programs(text) or _OWN_PROGRAM.match(text) is not None
        self._before = self._open = _ShownCommand(text)
        says = _SAYS.search(text)
        if says is None:
            return
        shown = _ShownCommand(text[: says.start()].strip())
        if says["how"] == ";" and _STATUS.search(says["words"]):
            shown.status = _printed(says["words"])
        elif says["how"] == "&&":
            shown.spoken = says["words"]
        self._before = self._open = shown

    def exit_code(self, text: str) -> tuple[int, LaunchedProcesses | None] | None:
        """The code that a line prints for the command before it, and what that started if this is the end of a job;
        None for lines that print no such code."""
        shown = self._open
        if shown is None:
            return None
        if shown.status is not None and (found := shown.status.fullmatch(text)) is not None:
            code = numbers.exit_code(found["code"])
        elif shown.spoken and shown.spoken == text:
            code = 0
        else:
            return None
        self._open = None
        return (
            (code, launched_processes(shown.text) if self._is_job(shown.text) else None) if code is not None else None
        )

    def _is_job(self, text: str) -> bool:
        last = _SEVERAL.split(text)[-1]
        return (
            len(text) < _WHOLE_CHARS
            and _DAMAGED.search(text) is None
            and starts_programs(last)
            and _PROGRAM.search(last) is not None
            and (self.pipefail or not is_pipe(text))
        )


def _printed(words: str) -> re.Pattern[str]:
    before, _, after = _STATUS.sub("\0", words, count=1).partition("\0")
    return re.compile(re.escape(before.strip()) + r"\s*(?P<code>\d{1,3})\s*" + re.escape(after.strip()))
