"""What the name of an event means: whose line it is, whether ranks wait in it for each other, or for the card."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.findings import Phase, Where
from unhang.knowledge.activities import activity_table
from unhang.knowledge.libraries import is_library_file, module_path

MAX_NAMES = 1_000_000
LONGEST = 160
GPU_CATEGORIES = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"))
BACKWARD_NAME = "built-in run_backward"
IGNORED_CATEGORIES = frozenset(("Trace", "overhead", "gpu_user_annotation", "ac2g", "fwdbwd"))
STEP, OPTIMIZER = re.compile(r"ProfilerStep#(\d+)$"), "Optimizer.step#"
_PYTHON = re.compile(r"(?P<file>[^()]+)\((?P<line>\d+)\): (?P<function>.+)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_BUILT_IN = re.compile(r"<built-in (?:method|function) (?P<what>.+?)(?: object)?>")
_PYBIND = re.compile(r"of pybind11_builtins\.\w+")
_COLLECTIVE = re.compile(
    r"^(?:c10d::|c10d_functional::|_c10d_functional::|gloo:|nccl:|rccl:|xccl:|ucc:|mpi:|record_param_comms)"
    r"|^(?:void )?(?:nccl|rccl|oneccl)\w*(?:Kernel|_kernel)"
    r"|^built-in (?:wait|barrier) of (?:PyCapsule|C\+\+|\w*Work)"
)
_DEVICE_WAIT = re.compile(r"^(?:cuda|hip|cu|xpu)\w*(?:Synchronize|StreamWaitValue)\w*$|^(?:cuda|hip)Memcpy$")
_PROFILER = ("torch/profiler/", "torch/autograd/profiler.py")
"""Its own frames were open when it began, and seem to last to the end of the trace."""
_PROFILER_CALL = re.compile(r"built-in (?:_record_function_|_enable_profiler|_add_kineto)")
_LOADER = ("enumerate(DataLoader)#", "DataLoader")


@dataclass(frozen=True, slots=True)
class EventName:
    """One name. ``where``: of a line of Python; ``own``: it is the user's; ``phase``: None where it says nothing."""

    text: str
    where: Where | None = None
    own: bool = False
    phase: Phase | None = None
    collective: bool = False
    device_wait: bool = False
    card: bool = False
    silent: bool = False
    """It only groups others: a step, a module."""
    step: int | None = None
    optimizer: bool = False


class EventNames:
    """Numbers for names. Addresses of objects do not count; beyond ``MAX_NAMES`` all new ones are one."""

    def __init__(self) -> None:
        self.known: list[EventName] = []
        self._by_text: dict[tuple[str, str], int] = {}
        self._spelt: dict[tuple[str, str], int] = {}

    def number(self, category: str, text: str) -> int:
        """The number of this name."""
        spelt = (category, text)
        found = self._spelt.get(spelt)
        if found is None:
            found = self._new(category, text)
            if len(self._spelt) > MAX_NAMES:
                self._spelt.clear()  # spellings with addresses come and go
            self._spelt[spelt] = found
        return found

    def _new(self, category: str, text: str) -> int:
        plain = without_address(text)
        if len(self.known) >= MAX_NAMES:
            category, plain = category if category in GPU_CATEGORIES else "", "(others)"
        key = (category, plain)
        if key not in self._by_text:
            self._by_text[key] = len(self.known)
            self.known.append(classify_event(category, plain))
        return self._by_text[key]


def without_address(text: str) -> str:
    """A built-in's name without the address of its object, printable and of a bounded length."""
    if " at 0x" in text:
        text = _ADDRESS.sub("", text)
    if "pybind11_builtins" in text:
        text = _PYBIND.sub("of C++", text)
    built_in = _BUILT_IN.fullmatch(text)
    if built_in is not None:
        text = f"built-in {built_in['what']}"
    text = text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def classify_event(category: str, text: str) -> EventName:
    """What an event of this category and name is."""
    if category in GPU_CATEGORIES:
        return EventName(text, phase=_phase_of(text), collective=bool(_COLLECTIVE.match(text)), card=True)
    if category in ("python_function", "Python"):
        return _python(text)
    step = STEP.match(text)
    if step is not None:
        return EventName(text, silent=True, step=int(step[1][:15]))
    return EventName(
        text,
        phase=_phase_of(text),
        collective=bool(_COLLECTIVE.match(text)),
        device_wait=bool(_DEVICE_WAIT.match(text)),
        optimizer=text.startswith(OPTIMIZER),
    )


def _python(text: str) -> EventName:
    if text.startswith("nn.Module: "):
        return EventName(text, silent=True)
    found = _PYTHON.fullmatch(text)
    if found is None and _PROFILER_CALL.match(text):
        return EventName(text, silent=True)
    if found is None:
        return EventName(text, collective=bool(_COLLECTIVE.match(text)), phase=_phase_of(text))
    where = Where(found["file"], int(found["line"][:9]), found["function"])
    if not is_library_file(where.file):
        return EventName(text, where, own=True)
    if where.file.startswith(_PROFILER):
        return EventName(text, silent=True)
    row = activity_table().of_python(where.function, where.file)
    phase = row.phase if row is not None else None
    return EventName(_dotted(where), where, phase=phase, collective=phase is Phase.COMMUNICATION)


def _dotted(where: Where) -> str:
    """Without its line, which is another one in every version."""
    return f"{module_path(where.file).removesuffix('.py').replace('/', '.')}.{where.function}"[:LONGEST]


def _phase_of(text: str) -> Phase | None:
    if _COLLECTIVE.match(text):
        return Phase.COMMUNICATION
    if text.startswith(_LOADER):
        return Phase.DATA
    return Phase.COMPUTE if text.startswith(("aten::", "autograd::", "Optimizer.", "torch::")) else None
