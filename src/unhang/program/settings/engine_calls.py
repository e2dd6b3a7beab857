"""What the source itself gives a training engine: ``TrainingArguments(deepspeed="ds.json", …)``,
``deepspeed.initialize(config=…)``, ``DeepSpeedPlugin(hf_ds_config=…)``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from unhang.evidence.items import SourceFile
from unhang.findings import Evidence, Source
from unhang.host.machine import Machine
from unhang.knowledge.collectives import source_names
from unhang.program.launch.launch import ConfigFile, Configuration, Launch, NamedFile
from unhang.program.program_source import EngineCall
from unhang.program.settings.branch_conditions import TestEvaluation
from unhang.program.settings.configuration_files import read_named_files, role_of
from unhang.program.settings.program_settings import ProgramSettings
from unhang.program.syntax.evaluation import UNKNOWN
from unhang.program.syntax.syntax_tree import Function, call_name, dotted, own_nodes, parsed_files
from unhang.sentences import say

_INITIALIZE, _LOADS, _MODEL = "deepspeed.initialize", ".from_pretrained", "pretrained_model_name_or_path"


def find_engine_calls(files: Iterable[SourceFile], settings: ProgramSettings) -> Iterator[EngineCall]:
    """Calls that name the configuration of an engine, make the Trainer's arguments, or load the model."""
    parsed = list(parsed_files(files))
    own = {one.name for _, program in parsed for one in program.owners if isinstance(one, Function)}
    for file, program in parsed:
        lines = file.text.splitlines()
        for scope, outer in program.owners.items():
            for node in own_nodes(scope):
                if isinstance(node, ast.Call) and _configures(node) and not _is_own(node, own):
                    there = TestEvaluation(settings, file.path, (*outer, scope))
                    given = {word.arg or "**": there.value(word.value) for word in node.keywords}
                    if node.args and dotted(node.func).endswith(_LOADS):
                        given[_MODEL] = there.value(node.args[0])
                    line = Evidence(Source(file.path, node.lineno), lines[node.lineno - 1].strip())
                    yield EngineCall(dotted(node.func), line, given)


def _is_own(call: ast.Call, own: Collection[str]) -> bool:
    """A function of the program: what it is given is its own setting, whatever it is called."""
    return dotted(call.func).rpartition(".")[0] in ("", "self") and call_name(call) in own


def _configures(call: ast.Call) -> bool:
    made = {call_name(call), ".".join(dotted(call.func).split(".")[-2:]), *(word.arg for word in call.keywords)}
    return any(made & source_names(what) for what in ("engine_setting", "trainer_arguments", "model_arguments"))


def configuration_in_calls(machine: Machine, launch: Launch, calls: Sequence[EngineCall]) -> Configuration:
    """The files that ``calls`` name, and the dictionaries that they give in their place."""
    files: list[ConfigFile] = []
    named: list[NamedFile] = []
    unread: list[NamedFile] = []
    for call in calls:
        for name, value in call.given.items():
            role = "deepspeed_config" if call.name == _INITIALIZE and name.startswith("config") else name
            row, source = role_of(role), call.evidence.source
            if row is None or not row.kind:
                continue
            one = NamedFile(role, value if isinstance(value, str) else f"{name}=", call.evidence)
            if isinstance(value, Mapping):
                files.append(ConfigFile(f"{source.path}:{source.line}", row.kind, value, direct=role != name))
            elif isinstance(value, str):
                named.append(one)
            elif value is UNKNOWN:
                unread.append(replace(one, because=say("known only at run time")))
    found = read_named_files(machine, launch, named)
    return Configuration((*files, *found.files), (*unread, *found.unread))
