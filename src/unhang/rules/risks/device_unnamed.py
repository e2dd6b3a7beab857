"""The program never says which card a rank uses.

What happens: ``init_process_group`` without ``device_id``, ``barrier()`` without ``device_ids``, and no ``set_device``:
torch guesses the card from the rank (``devices used by this process are currently unknown``).

Why it hangs: where the guess is not the card the rank works on, two communicators meet on one card, or one rank
waits on a card that is not its own.

Example: four ranks on each of two nodes with eight cards: rank 4 barriers on card 4, and works on card 0.

Fix: ``torch.cuda.set_device(local_rank)`` first, and ``init_process_group(device_id=…)``.

Certain when: never; a library may set the device.

Possible when: neither the script nor the files beside it name a device, and no library that does is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.evidence.items import SourceFile
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Situation
from unhang.facts.program import call_name, parse_program, statements
from unhang.findings import Cause, Certainty, Checked, Evidence, Remedy, RemedyKind, Severity, Source, Where, say
from unhang.rules.risks.risk import Answer, risk

CHECK = "program"
_SETTERS = {"set_device", "set_device_index", "Accelerator", "PartialState", "Trainer", "Fabric", "initialize"}
_CALLED = (*_SETTERS, "init_process_group", "barrier")
_LIBRARIES = {"accelerate", "transformers", "trl", "lightning", "pytorch_lightning", "deepspeed", "torchtitan", "ray"}
_OTHER_BACKENDS = {"gloo", "mpi", "xccl", "hccl"}


def ask(here: Situation) -> Iterator[Answer]:
    """One note at most: at the first barrier, else where the group is made."""
    found = here.found(ProgramSource)
    if found is None:
        return
    calls: list[tuple[SourceFile, ast.Call]] = []
    for file in found.files:
        program = parse_program(file.text)
        if isinstance(program, str):
            continue
        if _imports(program.tree) & _LIBRARIES:
            return
        if any(word in file.text for word in _CALLED):
            calls += [(file, node) for node in ast.walk(program.tree) if isinstance(node, ast.Call)]
    makers = [(file, call) for file, call in calls if call_name(call) == "init_process_group"]
    if not makers or all(_backend(call) in _OTHER_BACKENDS for _, call in makers):
        return
    if any(call_name(call) in _SETTERS for _, call in calls) or any(_has(call, "device_id") for _, call in makers):
        yield Checked(CHECK, say("the program says which card a rank uses"))
        return
    barriers = [(file, call) for file, call in calls if call_name(call) == "barrier" and not _has(call, "device_ids")]
    yield _note(*min(barriers or makers, key=lambda one: (one[0].path != found.files[0].path, one[1].lineno)))


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
