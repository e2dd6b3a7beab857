"""Where the ranks would meet, by the launcher's options, a file of its own, or the environment; and whether they can.

The port of this node is looked up in the kernel's list of listeners, nothing is bound; on another node one connection
is opened and closed again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

from unhang.check.network import network_trial
from unhang.check.network.network import Interfaces, RendezvousEndpoint, address_of, is_loopback
from unhang.findings import Evidence, Source
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.program.launch.launch import Configuration, Launch
from unhang.sentences import say

DEFAULT_PORT, DEFAULT_ENDPOINT_PORT = 29500, 29400
"""Of ``--master_port``; of a dynamic rendezvous (torch 2.13.0 elastic/rendezvous/c10d_rendezvous_backend.py)."""
REACH_S, RESOLVE_S = 2.5, 4.0
_WITH_DEFAULT = ("torchrun", "accelerate", "deepspeed")
_OPTIONS = (("master_addr", "master_port"), ("main_process_ip", "main_process_port"))
_LISTEN = "0A"
_HOST = re.compile(r"[\w.-]+")
"""What a shell works out (``$(…)``) and a place to fill in (``<HEAD>``) are none."""


def find_rendezvous_endpoint(
    machine: Machine,
    launch: Launch,
    configuration: Configuration,
    environment: Mapping[str, str],
    seen: Interfaces | None,
) -> InspectionResult[RendezvousEndpoint]:
    """Nothing where nothing says where they meet, or where the launcher takes any free port."""
    named = _named(launch, configuration, environment)
    if named is None:
        return InspectionResult()
    address, port, evidence = named
    if any(mark in address for mark in "$`"):  # a shell makes it; the way to the program is said to be unread there
        return InspectionResult()
    result = resolve_host(machine, address)
    if result.found is None:
        return InspectionResult(because=result.because, how=result.how)
    addresses = result.found
    here = any(is_loopback(one) or (seen is not None and seen.with_address(one) is not None) for one in addresses)
    answer = ""
    if "RANK" in environment:  # started by the launcher: the ranks have met already
        pass
    elif here:
        answer = "taken" if _listens(machine, port) else "free"
    elif addresses:
        answer = _reached(machine, addresses[0], port)
    return InspectionResult(RendezvousEndpoint(address, port, evidence, addresses, here, answer))


def resolve_host(machine: Machine, name: str, limit_s: float = RESOLVE_S) -> InspectionResult[tuple[str, ...]]:
    """What the resolver of this node makes of ``name``, in its order; nothing when it does not know it.

    An address is its own answer. Without a resolver ``/etc/hosts`` tells where a name leads, not that it leads nowhere.
    """
    if address_of(name) is not None:
        return InspectionResult((name,))
    if _HOST.fullmatch(name) is None:
        return InspectionResult(because=say("{name} is not a hostname: it is known only at run time", name=name))
    result = machine.command(["getent", "ahosts", name], limit_s)
    if result.because is not None:
        return InspectionResult(because=result.because, how=result.how)
    if result.found is not None:
        lines = result.found.text.splitlines() if result.found.code == 0 else []
        return InspectionResult(tuple(dict.fromkeys(line.split()[0] for line in lines if line.strip())))
    hosts = (line.partition("#")[0].split() for line in machine.text("/etc/hosts").splitlines())
    found = tuple(dict.fromkeys(words[0] for words in hosts if name in words[1:]))
    if found:
        return InspectionResult(found)
    return InspectionResult(because=say("getent is not installed"), how=f"getent ahosts {name}")


def _named(
    launch: Launch, configuration: Configuration, environment: Mapping[str, str]
) -> tuple[str, int, Evidence] | None:
    options = _options(launch, environment)
    if "standalone" in options:
        return None
    endpoint = options.get("rdzv_endpoint", "")
    if endpoint or options.get("rdzv_backend", "static") != "static":
        return _of_endpoint(endpoint)
    for address, port in _OPTIONS:
        host = options.get(address, "")
        if host:
            number = _number(options.get(port)) or DEFAULT_PORT
            return host, number, Evidence(Source("command"), f"--{address} {host}")
    for file in configuration.of("accelerate"):
        host = file.get("main_process_ip")
        if host:
            number = _number(str(file.get("main_process_port", ""))) or DEFAULT_PORT
            return str(host), number, Evidence(Source(file.path), f"main_process_ip: {host}")
    host = environment.get("MASTER_ADDR", "")
    option = options.get("master_port") or options.get("main_process_port")
    chosen = _number(option)
    if host and launch.launcher not in ("torchrun", "accelerate"):  # both overwrite what the shell exports
        number = chosen or _number(environment.get("MASTER_PORT")) or DEFAULT_PORT
        return host, number, Evidence(Source("environment"), f"MASTER_ADDR={host}")
    if launch.launcher in _WITH_DEFAULT and chosen != 0:
        text = f"--master_port {chosen}" if chosen else f"{launch.launcher}: default port"
        return "127.0.0.1", chosen or DEFAULT_PORT, Evidence(Source("command"), text)
    return None


def _of_endpoint(endpoint: str) -> tuple[str, int, Evidence] | None:
    """``HOST[:PORT]``; port 0 is any free one."""
    evidence = Evidence(Source("command"), f"--rdzv_endpoint {endpoint}".rstrip())
    host, _, port = endpoint.rpartition(":")
    number = _number(port)
    if number is None or endpoint.endswith("]"):
        host, number = endpoint, DEFAULT_ENDPOINT_PORT
    return None if number == 0 else (host.strip("[]") or "localhost", number, evidence)


def _options(launch: Launch, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Of the launcher; torchrun reads every option from ``PET_<NAME>`` as well."""
    names = ("rdzv_endpoint", "rdzv_backend", "master_addr", "master_port", "standalone")
    pet = {name: environment.get(f"PET_{name.upper()}", "") for name in names} if launch.launcher == "torchrun" else {}
    return {**{name: value for name, value in pet.items() if value}, **launch.options}


def _number(text: str | None) -> int | None:
    number = numbers.integer(text or "")
    return number if number is not None and 0 <= number < 1 << 16 else None


def _listens(machine: Machine, port: int) -> bool:
    """Whether somebody listens on ``port`` of this node, on any address."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in machine.text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTEN and fields[1].rpartition(":")[2] == f"{port:04X}":
                return True
    return False


def _reached(machine: Machine, address: str, port: int) -> str:
    started = time.monotonic()
    words = [address, str(port), str(REACH_S)]
    result = machine.program(Path(network_trial.__file__), words, REACH_S + 2)
    if result.found is None:
        return "silent" if time.monotonic() - started >= REACH_S else ""
    try:
        return str(json.loads(result.found.text)["answer"])
    except (ValueError, KeyError, TypeError):
        return ""
