"""``kubectl apply -f job.yaml``: the command, environment and number of nodes in a manifest of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from unhang.findings import Source
from unhang.program.launch.shell.partly_known_text import without_marks
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import ShellState
from unhang.sentences import say

MAX_DEPTH = 24


def follow_manifests(session: FollowSession, command: StartedCommand) -> None:
    """Follow the containers of every manifest that the words of ``command`` name."""
    state, words = command.state, command.words
    names = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-f", "--filename")]
    names += [word.partition("=")[2] for word in words if word.startswith(("-f=", "--filename="))]
    for name in names:
        text = command.stdin if name == "-" else session.read(state.place(name))
        if text is None:
            session.note(say("{path} does not exist", path=session.parts.as_written(state.place(name))), command.source)
            continue
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = str(error).split("\n")[0]
            session.note(say("{path} cannot be read: {reason}", path=name, reason=reason), Source(state.place(name)))
            continue
        for document in documents:
            _document(session, state, document, name)


def _document(session: FollowSession, state: ShellState, document: Any, name: str) -> None:
    if not isinstance(document, Mapping):
        return
    seen: set[tuple[str, ...]] = set()
    for container, replicas in _containers(document, 1, 0):
        words = tuple(without_marks(str(word)) for word in (*_list(container, "command"), *_list(container, "args")))
        if not words or words in seen:
            continue
        seen.add(words)
        _container(session, state, container, words, name, replicas)


def _container(
    session: FollowSession,
    state: ShellState,
    container: Mapping[str, Any],
    words: tuple[str, ...],
    name: str,
    replicas: int,
) -> None:
    child, source = state.child(f"kubectl {name}", []), Source(state.place(name))
    for row in _list(container, "env"):
        if isinstance(row, Mapping) and "name" in row:
            because = say("the cluster fills it in")
            unknown = session.parts.mark(f"${row['name']}", because, source)
            child.assign(str(row["name"]), str(row["value"]) if "value" in row else unknown, source, export=True)
    folder = container.get("workingDir")
    child.folder = str(folder) if isinstance(folder, str) else child.folder
    because = say("the cluster's operator sets it")
    for variable in ("MASTER_ADDR", "MASTER_PORT", "RANK", "NODE_RANK"):
        if child.value(variable) is None:
            child.assign(variable, session.parts.mark(f"${variable}", because, source), source, export=True)
    if replicas > 1 and child.value("WORLD_SIZE") is None:
        child.assign("WORLD_SIZE", str(replicas), source, export=True)
    child.image = f"image: {container.get('image', '?')}"
    session.commands.append(StartedCommand(words, child, source))


def _containers(node: Any, replicas: int, depth: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Every container with a command, and how many pods of it the job has in all."""
    if depth > MAX_DEPTH:
        return
    if isinstance(node, list):
        for one in node:
            yield from _containers(one, replicas, depth + 1)
    if not isinstance(node, Mapping):
        return
    for held in _list(node, "containers"):
        if isinstance(held, Mapping):
            yield held, replicas
    specs = [value for key, value in node.items() if str(key).endswith("ReplicaSpecs") and isinstance(value, Mapping)]
    counts = [one.get("replicas", 1) for spec in specs for one in spec.values() if isinstance(one, Mapping)]
    total = sum(count for count in counts if isinstance(count, int)) or replicas
    own = node.get("replicas", node.get("completions", node.get("numNodes")))
    total = own if isinstance(own, int) and not specs and replicas == 1 else total
    for key, value in node.items():
        if key not in ("containers", "initContainers"):
            yield from _containers(value, total, depth + 1)


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []
