"""Whose code a file is: the user's, or a library's (``libraries.toml``)."""

from __future__ import annotations

from functools import lru_cache

from unhang.knowledge.tables import read_typed
from unhang.late_pattern import late_pattern

_INSTALLED = late_pattern(
    r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib/python3(?:\.\d+t?)?/(?!.*/(?:projects|src)/)"
)
_STDLIB = late_pattern(r"(?:^|/)lib/python3(?:\.\d+t?)?/")
_TORCH_CHECKOUT = late_pattern(r"/torch/(?:distributed|nn|autograd|optim|utils|csrc|multiprocessing|cuda|_\w+)/")
# by its folders, past ones included: a project of a user's may lie in a folder that is called unhang too
_UNHANG = late_pattern(
    r"(?:^|/)unhang(?:/(?!lab/cases/)(?:causes|check|checks|cli|comparing|diagnosis|evidence|experiments|facts|guards|history"
    r"|host|inprocess|integrations|knowledge|lab|program|records|report|resharding|rules|secrets|view|viewing|watch|wire)"
    r"|_(?!lab/cases/)(?:compare|lab|ramp|reshard))/"
)
_UNHANG_IN_PROCESS = late_pattern(r"(?:^|/)unhang/inprocess/")
_LAB_CASE = late_pattern(r"(?:^|/)unhang[/_]lab/cases/[^/]+\.py$")
_NOTEBOOK = late_pattern(r"^<(?:stdin|ipython-input-.*|string-notebook)>$|/ipykernel_\d+/")


@lru_cache(maxsize=1)
def _names() -> dict[str, frozenset[str]]:
    return read_typed("libraries.toml", dict[str, frozenset[str]])


@lru_cache(maxsize=65_536)
def is_library_file(path: str) -> bool:
    """True when ``path``, as a stack spells it, is a library's, the interpreter's or a launcher's.

    Works on full paths (faulthandler, flight recorder, JSON) and on py-spy's shortened ones (``selectors.py``).
    """
    file = path.replace("\\", "/")
    if _NOTEBOOK.search(file) or _LAB_CASE.search(file):
        return False
    if not file or file.startswith("<") or file == "??":
        return True
    if _INSTALLED.search(file) or _TORCH_CHECKOUT.search(file) or _UNHANG.search(file):
        return True
    return not file.startswith(("/", "./", "../")) and file[1:3] != ":/" and _is_library_name(file)


@lru_cache(maxsize=65_536)
def is_unhang_in_process(path: str) -> bool:
    """True for the files of our own that run inside the ranks of a watched job."""
    return _UNHANG_IN_PROCESS.search(path.replace("\\", "/")) is not None


def is_training_library(package: str) -> bool:
    """True for an installed package that makes process groups or loaders itself: what it does is read where it is."""
    return package in _names()["training"]


def is_engine_file(path: str) -> bool:
    """True for a file of an engine that generates or serves."""
    return module_path(path).partition("/")[0] in _names()["engines"]


def is_unknown_package(path: str) -> bool:
    """True for an installed package that no list knows: often the user's own program, installed with pip."""
    file = path.replace("\\", "/")
    first = module_path(file).partition("/")[0].removesuffix(".py")
    installed = "site-packages/" in file or "dist-packages/" in file
    return installed and first not in _names()["packages"] and not _UNHANG.search(file)


def _is_library_name(file: str) -> bool:
    """For a path below the import path: its first part says whose it is."""
    names = _names()
    first, slash, _ = file.partition("/")
    if slash:
        return first in names["packages"] or first in names["stdlib_packages"]
    module, dot, ending = first.rpartition(".")
    if not dot:
        return first in names["launchers"]
    return ending == "py" and (module in names["stdlib_modules"] or module in names["packages"])


def module_path(path: str) -> str:
    """The part of a path below the place it was installed to: ``torch/nn/modules/module.py``."""
    file = path.replace("\\", "/")
    for folder in ("site-packages/", "dist-packages/"):
        file = file.rpartition(folder)[2]
    return _STDLIB.split(file)[-1]
