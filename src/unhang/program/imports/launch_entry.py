"""Where a launch starts reading: its script as a file, and the folders Python would search from there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.installed_packages import InstalledPackages, installed_for
from unhang.program.imports.module_finder import ModuleFinder

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_SOURCE_FOLDERS = ("", "src", "python", "lib")
_MAX_ABOVE = 12


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """``script``: absolute, empty where the program leads to no file. ``roots``: folders whose files are the user's."""

    script: str
    roots: tuple[str, ...]
    installed: InstalledPackages
    finder: ModuleFinder


def find_launch_entry(
    folders: FolderListing, program: str, words: Sequence[str], environment: Mapping[str, str]
) -> LaunchEntry:
    """Of ``program`` (``train.py``, ``-m pkg.train`` or a module's bare name) that ``words`` would start."""
    told = {**environment, **dict(_assignments(words))}
    installed = interpreter_of(folders, words, environment)
    paths = [folders.absolute(path) for path in told.get("PYTHONPATH", "").split(":") if path]
    here = folders.absolute("")
    name = program.removeprefix("-m ").strip()
    if name.endswith(".py"):
        script = folders.absolute(name)
        first = [posixpath.dirname(script), *paths]
        script = script if folders.is_file(script) else ""
        finder = ModuleFinder(folders, first, installed.folders, installed.mapped)
    else:
        project = tuple(_project_folders(folders, here))
        finder = ModuleFinder(folders, [here, *paths], installed.folders, installed.mapped, project)
        script = _main_of(finder, name) if all(part.isidentifier() for part in name.split(".")) else ""
    if script:
        top = _above_packages(folders, posixpath.dirname(script))
        finder.assumed = tuple(dict.fromkeys((top, *_project_folders(folders, top), *_project_folders(folders, here))))
    return LaunchEntry(script, tuple(_roots(folders, script, here)), installed, finder)


def interpreter_of(folders: FolderListing, words: Sequence[str], environment: Mapping[str, str]) -> InstalledPackages:
    """The interpreter that ``words`` would start, and what is installed for it."""
    told = {**environment, **dict(_assignments(words))}
    return installed_for(folders, [word for word in words if "=" not in word], told)


def _assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``PYTHONPATH=. torchrun …``, also behind ``env``."""
    for word in words:
        name, sign, value = word.partition("=")
        if sign and name.isidentifier():
            yield name, value
        elif word != "env":
            return


def _main_of(finder: ModuleFinder, name: str) -> str:
    """The file that ``python -m name`` runs: the module, or ``__main__`` of the package; a console script may call into
    the package itself."""
    found = finder.find(name)
    if found is None or found.rest or found.standard:
        return ""
    if found.folders:
        inner = finder.inside(found, ["__main__"])
        found = found if inner.rest else inner
    return found.files[-1] if found.files else ""


def _above_packages(folders: FolderListing, folder: str) -> str:
    """The folder from which the package around ``folder`` is imported."""
    while folder != "/" and folders.is_file(f"{folder}/__init__.py"):
        folder = posixpath.dirname(folder)
    return folder


def pinning_folders(folders: FolderListing, script: str, asked_in: str) -> Iterator[str]:
    """Where a project may say which releases it needs: from the script's folder up to the outermost folder that is a
    project, and the folder that the command is given in. The nearest comes first."""
    way = [posixpath.dirname(script)] if script else []
    while way and way[-1] != "/" and len(way) <= _MAX_ABOVE:
        way.append(posixpath.dirname(way[-1]))
    marks = {*PROJECT_FILES, "requirements.txt"}
    ends = [at for at, one in enumerate(way) if one == asked_in or marks & (folders.names(one) or frozenset())]
    yield from way[: ends[-1] + 1] if ends else way[:1]
    yield asked_in


def project_of(folders: FolderListing, folder: str) -> str:
    """The nearest folder at or above ``folder`` that says it is a project; empty where none does."""
    for _ in range(_MAX_ABOVE):
        if any(name in (folders.names(folder) or ()) for name in PROJECT_FILES):
            return folder
        if folder == "/":
            break
        folder = posixpath.dirname(folder)
    return ""


def _project_folders(folders: FolderListing, folder: str) -> Iterator[str]:
    """Where a project keeps what it would install."""
    for project in dict.fromkeys((folder, project_of(folders, folder) or folder)):
        for inner in _SOURCE_FOLDERS:
            path = posixpath.join(project, inner).rstrip("/") or "/"
            if folders.names(path) is not None:
                yield path


def _roots(folders: FolderListing, script: str, here: str) -> Iterator[str]:
    if script:
        top = _above_packages(folders, posixpath.dirname(script))
        if "site-packages" in script or "dist-packages" in script:
            yield posixpath.join(top, script.removeprefix(top).strip("/").partition("/")[0])
            return
        yield project_of(folders, top) or top
    yield here
