"""Every detector: the functions ``detect…`` of the modules of ``causes``, by name; and what they answer."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from unhang import causes
from unhang.causes.detector import Detector, Signal
from unhang.causes.evidence_lines import hosts_of
from unhang.diagnosis.grades import grade_signal
from unhang.facts.model import Facts
from unhang.findings import Certainty, Finding, NotChecked, Verdict
from unhang.sentences import say


def _detectors(module: ModuleType) -> Iterator[Detector]:
    """``detect`` bears the name of its cause, ``detect_printed`` that name and its own."""
    cause = module.__name__.rsplit(".", 1)[-1]
    for name, function in vars(module).items():
        if name.startswith("detect"):
            yield Detector(cause + name.removeprefix("detect"), module.CAUSE, function, module.__doc__ or "")


def _modules() -> Iterator[str]:
    """In the folders of ``causes``, one a cause; ``wording`` holds what they say alike."""
    for folder in pkgutil.iter_modules(causes.__path__, f"{causes.__name__}."):
        if folder.ispkg and not folder.name.endswith(".wording"):
            inside = import_module(folder.name).__path__
            yield from (found.name for found in pkgutil.iter_modules(inside, f"{folder.name}."))


ALL_DETECTORS: tuple[Detector, ...] = tuple(
    sorted((found for name in _modules() for found in _detectors(import_module(name))), key=lambda found: found.name)
)


def ask_detectors(facts: Facts, verdict: Verdict, detectors: Sequence[Detector] = ALL_DETECTORS) -> Verdict:
    """Runs every detector in the folders of ``causes/``; none is registered, none knows of another, and one that fails
    costs only its own answer. A signal becomes a finding whose certainty follows from the table of grades.
    """
    findings, not_checked = list[Finding](), list(verdict.not_checked)
    for detector in detectors:
        for answer in _answers_of(detector, facts):
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                not_checked.append(answer)
    return replace(verdict, findings=tuple(findings), not_checked=tuple(not_checked))


def _answers_of(detector: Detector, facts: Facts) -> Iterator[Finding | NotChecked]:
    try:
        for answer in detector.check(facts):
            yield answer if isinstance(answer, NotChecked) else _found(facts, answer, detector)
    except MemoryError:
        raise  # not this detector's fault: the whole is too large
    except Exception as error:  # noqa: BLE001 - the boundary of one detector
        yield NotChecked.after(error, say("whether it is {causes}", causes=detector.cause.value), Certainty.LIKELY)


def _found(facts: Facts, signal: Signal, detector: Detector) -> Finding:
    found = grade_signal(signal, detector)
    return found if found.nodes else replace(found, nodes=hosts_of(facts, found.ranks))
