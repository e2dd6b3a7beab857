"""Risks in the NVIDIA driver and the libraries on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.devices import Cards, CudaCompiler, NcclLibraries, NvidiaDriver, TorchCudaBuild
from unhang.check.environment.environment import Requirements
from unhang.check.risks.risk import Answer, Risk, RiskRows
from unhang.findings import Evidence, Finding, Grade, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.versions import VersionRow, version_matches, version_numbers, version_rows
from unhang.program.launch.launch import Configuration
from unhang.program.program_source import ProgramSource
from unhang.sentences import Text

ROWS = RiskRows("driver")


def device_driver(here: NodeInspection) -> Iterator[Answer]:
    """Every CUDA needs a driver branch; with an older one torch finds no card, and the ranks there end at the start."""
    built, cards, version = here.result(TorchCudaBuild), here.found(Cards), _version(here)
    if not version:
        return
    yield from ROWS.gap("driver", built)
    torch = built.found
    if torch is None:
        return
    if not torch.cuda:
        if cards is not None and cards.cards:
            yield ROWS.risk("without-cuda", {"how": torch.how, "cards": len(cards.cards)})
        return
    major = torch.cuda.partition(".")[0]
    row = next((row for row in version_rows() if row.package == "nvidia-driver" and row.cuda == major), None)
    numbers = version_numbers(version)
    if row is None or numbers is None:
        return
    if version_matches(row.affects, numbers):
        yield ROWS.fine("driver", driver=version, cuda=torch.cuda)
    else:
        driver = here.found(NvidiaDriver)
        yield _too_old(version, torch, row, "" if driver is None else driver.compat)


def _version(here: NodeInspection) -> str:
    """The kernel module's, or what nvidia-smi tells (WSL has no such module)."""
    driver, cards = here.found(NvidiaDriver), here.found(Cards)
    return driver.module if driver is not None else cards.driver if cards is not None else ""


def _too_old(version: str, torch: TorchCudaBuild, row: VersionRow, compat: str) -> Finding:
    because = [ROWS.words("built-for", cuda=torch.cuda, how=torch.how)]
    if compat:
        because.append(ROWS.words("compatibility", path=compat))
    return ROWS.risk(
        "too-old",
        {"driver": version, "major": row.cuda, "branch": row.affects.lstrip(">= ")},
        grade=Grade.BASE_RATE if compat else None,
        because=tuple(because),
        evidence=(Evidence(Source("/proc/driver/nvidia/version"), version), Evidence(Source(torch.how), row.source)),
    )


def device_compiler(here: NodeInspection) -> Iterator[Answer]:
    """Extensions are all that nvcc compiles: one of another CUDA than torch's matters where this launch has some."""
    compiler, built = here.result(CudaCompiler), here.found(TorchCudaBuild)
    if built is None or not built.cuda:
        return
    yield from ROWS.gap("nvcc", compiler)
    if compiler.found is None:
        return
    values = {"path": compiler.found.path, "nvcc": compiler.found.cuda, "cuda": built.cuda}
    major = built.cuda.partition(".")[0]
    if compiler.found.cuda.partition(".")[0] == major:
        yield ROWS.fine("nvcc", **values)
    elif compiled := tuple(_compiled(here)):
        yield ROWS.risk("nvcc", {**values, "major": major}, because=compiled)
    else:
        yield ROWS.fine("nvcc-unused", **values) if here.found(Requirements) else ROWS.fine("nvcc-other", **values)


def _compiled(here: NodeInspection) -> Iterator[Text]:
    """What of this launch compiles: DeepSpeed's optimizers at its start, the program itself, packages not there yet."""
    for file in (here.found(Configuration) or Configuration()).of("deepspeed"):
        offload = file.get("zero_optimization.offload_optimizer.device", "none")
        if offload not in ("none", None) or file.get("optimizer.type"):
            yield ROWS.words("deepspeed-compiles", path=file.path)
    for source in (here.found(ProgramSource) or ProgramSource()).whole:
        if "cpp_extension" in source.text:
            yield ROWS.words("program-compiles", path=source.path)
    for package in (here.found(Requirements) or Requirements("", 0)).differing:
        if package.compiled and not package.installed:
            yield ROWS.words("package-compiles", package=package.name, place=package.place)


def _drivers_differ(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Nodes with different drivers may choose different ways of talking to each other."""
    nodes: dict[str, list[str]] = {}
    for situation in situations:
        version = _version(situation)
        if version and situation.node not in nodes.setdefault(version, []):
            nodes[version].append(situation.node)
    if len(nodes) > 1:
        told = "; ".join(f"{version}: {', '.join(names[:8])}" for version, names in sorted(nodes.items()))
        rare = min(nodes.values(), key=len)
        yield ROWS.risk("different-drivers", {"told": told}, nodes=tuple(rare))


def device_two_nccl(here: NodeInspection) -> Iterator[Answer]:
    """Ranks that load different releases choose different algorithms, and wait for each other.

    The wheel names its own folder and finds it before LD_LIBRARY_PATH, but not before LD_PRELOAD.
    """
    libraries = here.found(NcclLibraries) or NcclLibraries()
    wheel = next(iter(libraries.of("wheel")), None)
    if wheel is None:
        return
    others = [one for one in libraries.of("LD_PRELOAD", "LD_LIBRARY_PATH") if one.version != wheel.version]
    for one in others:
        other = one.version or one.path
        yield ROWS.risk(
            "nccl-preloaded" if one.where == "LD_PRELOAD" else "nccl-on-path",
            {"where": one.where, "other": other, "version": wheel.version, "path": one.path},
            evidence=(Evidence(Source(one.where), one.path),),
        )
    if not others:
        yield ROWS.fine("one-nccl", version=wheel.version)


def _nccl_differs(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Different releases on different ranks or nodes."""
    nodes: dict[str, set[str]] = {}
    for situation in situations:
        for library in (situation.found(NcclLibraries) or NcclLibraries()).of("wheel", "LD_PRELOAD")[-1:]:
            nodes.setdefault(library.version or library.path, set()).add(situation.node)
    if len(nodes) > 1:
        fewest = min(len(names) for names in nodes.values())
        rare = {name for names in nodes.values() if len(names) == fewest for name in names}
        told = "; ".join(f"{version}: {', '.join(sorted(names)[:8])}" for version, names in sorted(nodes.items()))
        yield ROWS.risk("different-nccl", {"told": told}, nodes=tuple(sorted(rare)))


RISKS = (
    Risk("device_driver", "driver", device_driver, _drivers_differ),
    Risk("device_compiler", "driver", device_compiler),
    Risk("device_two_nccl", "driver", device_two_nccl, _nccl_differs),
)
