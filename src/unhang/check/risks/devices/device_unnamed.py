"""The program never says which card a rank uses.

What happens: ``init_process_group`` without ``device_id``, ``barrier()`` without ``device_ids``, and no ``set_device``:
torch guesses the card from the rank (``devices used by this process are currently unknown``).

Why it hangs: where the guess is not the card the rank works on, two communicators meet on one card, or one rank
waits on a card that is not its own.

Example: four ranks on each of two nodes with eight cards: rank 4 barriers on card 4, and works on card 0.

Fix: ``torch.cuda.set_device(local_rank)`` first, and ``init_process_group(device_id=…)``.

Certain when: never; a library may set the device.

Possible when: neither the script nor the files beside it name a device, and no library does; or a library makes the
group without one, the program meets in a barrier before anything else, and its cards are chosen by number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.evidence.items import SourceFile
from unhang.facts.laggard.main_process_first import is_main_first_name
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.program_source import ProgramSource
from unhang.program.syntax.syntax_tree import call_name, parse_file, statements
from unhang.sentences import Text, say

CHECK = "program"
VARIABLE = "CUDA_VISIBLE_DEVICES"
_SETTERS = {"set_device", "set_device_index", "Accelerator", "PartialState", "Trainer", "Fabric", "initialize"}
_CALLED = (*_SETTERS, "init_process_group", "barrier", "_first")
_LIBRARIES = {"accelerate", "transformers", "trl", "lightning", "pytorch_lightning", "deepspeed", "torchtitan", "ray"}
_WITHOUT_DEVICE = {"accelerate", "transformers", "trl"}
"""They make the group without ``device_id`` (accelerate/state.py, 0.26 - 1.15), and set the device after that."""
_OTHER_BACKENDS = {"gloo", "mpi", "xccl", "hccl"}


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note at most: at the first barrier, else where the group is made."""
    found = here.found(ProgramSource)
    if found is None:
        return
    calls: list[tuple[SourceFile, ast.Call]] = []
    libraries: set[str] = set()
    for file in found.files:
        program = parse_file(file.text)
        if isinstance(program, str):
            continue
        libraries |= _imports(program.tree) & _LIBRARIES
        if any(word in file.text for word in _CALLED):
            calls += [(file, node) for node in ast.walk(program.tree) if isinstance(node, ast.Call)]
    makers = [(file, call) for file, call in calls if call_name(call) == "init_process_group"]
    if libraries:
        if libraries & _WITHOUT_DEVICE and not makers:
            yield from _made_by_a_library(here, found, calls)
        return
    if not makers or all(_backend(call) in _OTHER_BACKENDS for _, call in makers):
        return
    if any(call_name(call) in _SETTERS for _, call in calls) or any(_has(call, "device_id") for _, call in makers):
        yield PassedCheck(CHECK, say("the program says which card a rank uses"))
        return
    barriers = [(file, call) for file, call in calls if call_name(call) == "barrier" and not _has(call, "device_ids")]
    yield _note(*min(barriers or makers, key=lambda one: (one[0].path != found.files[0].path, one[1].lineno)))


def _made_by_a_library(
    here: NodeInspection, program: ProgramSource, calls: Sequence[tuple[SourceFile, ast.Call]]
) -> Iterator[Answer]:
    """A note where the cards are chosen by number and the program meets in a barrier of its own."""
    settings = here.found(JobEnvironment)
    cards = settings.in_force.get(VARIABLE) if settings is not None else None
    numbers = cards.value.split(",") if cards is not None else []
    if cards is None or not all(one.strip().isdigit() for one in numbers):
        return
    if [int(one) for one in numbers] == list(range(len(numbers))):
        return
    barriers = [
        (file, call) for file, call in calls if call_name(call) == "barrier" or is_main_first_name(call_name(call))
    ]
    if not barriers:
        return
    file, call = min(barriers, key=lambda one: (program.files.index(one[0]), one[1].lineno))
    path, line, name = file.path, call.lineno, call_name(call)
    text = file.text.splitlines()[line - 1].strip()
    yield risk(
        CHECK,
        f"{path}:{line}",
        Cause.DEVICE_MAPPING,
        say(
            "cards {cards} are chosen by number, and no device is given to the group before its first barrier ({call})",
            cards=cards.value,
            call=name,
        ),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        where=Where(path, line, "<module>"),
        because=(
            say("the library makes the group without device_id; the barrier then takes the card from the rank"),
            say(
                "if every rank stands there with a busy card, it is the transport between these cards, not the program"
            ),
        ),
        evidence=(
            Evidence(Source(path, line), text),
            Evidence(Source(cards.origin, cards.line), f"{VARIABLE}={cards.value}"),
        ),
        remedies=(
            _command(say("Try a collective between these cards"), "unhang check --only probe"),
            _command(say("If it hangs: find the setting that gets around it"), "unhang bisect"),
        ),
    )


def _command(title: Text, command: str) -> Remedy:
    change = say("{variable} as in the job; {command}", variable=VARIABLE, command=command)
    return Remedy(title, RemedyKind.COLLECT, change, say("some minutes on the cards"), say("it ends well"))


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _backend(call: ast.Call) -> str:
    given = next((word.value for word in call.keywords if word.arg == "backend"), call.args[0] if call.args else None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _has(call: ast.Call, name: str) -> bool:
    return any(word.arg in (name, None) for word in call.keywords)


def _note(file: SourceFile, call: ast.Call) -> Answer:
    line = file.text.splitlines()[call.lineno - 1].strip()
    return risk(
        CHECK,
        f"{file.path}:{call.lineno}",
        Cause.DEVICE_MAPPING,
        say("nothing says which card a rank uses; {call} guesses it from the rank", call=call_name(call)),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        where=Where(file.path, call.lineno, "<module>"),
        evidence=(Evidence(Source(file.path, call.lineno), line),),
        remedies=(
            Remedy(
                say("Name the card before the group is made"),
                RemedyKind.CODE,
                say(
                    'local = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local)\n'
                    'dist.init_process_group("nccl", device_id=torch.device("cuda", local))'
                ),
                say("none"),
                say("the warning about unknown devices no longer comes"),
            ),
        ),
    )
