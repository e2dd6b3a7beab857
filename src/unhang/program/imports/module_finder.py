"""Where a module lies, as Python would find it: along the path, packages before modules before bare folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.program.imports.folder_listing import FolderListing

_NATIVE = (".so", ".pyd")


@dataclass(frozen=True, slots=True)
class FoundModule:
    """``files``: the ``__init__.py`` of each package on the way, then the module's own. ``folders``: where its
    submodules lie, for a package. ``rest``: parts of the name that are no module (``pkg.mod.Class``)."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    standard: bool = False
    """Of the standard library: known by its name, and not read."""


@dataclass(slots=True)
class ModuleFinder:
    """``path``: the launch's, before and after the standard library. ``mapped``: packages that an editable install
    sends elsewhere. ``assumed``: folders of the project from which it would be installed; nothing leads there yet.
    """

    folders: FolderListing
    first: Sequence[str] = ()
    after: Sequence[str] = ()
    mapped: Mapping[str, str] = field(default_factory=dict)
    assumed: Sequence[str] = ()
    added: list[str] = field(default_factory=list)
    """What the program itself puts on its path."""

    def find(self, name: str) -> FoundModule | None:
        """The module ``name``, as far as its parts are modules; None where not even the first is one."""
        parts = name.split(".")
        top = self._top(parts[0])
        return None if top is None else top if top.standard else self.inside(top, parts[1:])

    def inside(self, package: FoundModule, parts: Sequence[str]) -> FoundModule:
        """``parts`` below ``package``; what is no module there is its ``rest``."""
        found = package
        for at, part in enumerate(parts):
            one = self._in_folders(part, found.folders)
            if one is None:
                return FoundModule(found.files, found.folders, tuple(parts[at:]))
            found = FoundModule((*found.files, *one.files), one.folders)
        return found

    def package(self, folder: str) -> FoundModule:
        """``folder`` as a package: with its ``__init__.py`` where there is one."""
        init = f"{folder}/__init__.py"
        return FoundModule((init,) if self.folders.is_file(init) else (), (folder,))

    def submodules(self, package: FoundModule) -> Iterator[str]:
        """Names of the modules right inside ``package``."""
        for folder in package.folders:
            for name in sorted(self.folders.names(folder) or ()):
                module, dot, ending = name.rpartition(".")
                if dot and ending == "py" and module.isidentifier() and module != "__init__":
                    yield module
                elif name.isidentifier() and self.folders.is_file(f"{folder}/{name}/__init__.py"):
                    yield name

    def _top(self, name: str) -> FoundModule | None:
        if name in sys.builtin_module_names:
            return FoundModule(standard=True)
        first, after = (*self.added, *self.first), self.after
        named = self._in_folders(name, first, namespaces=False)
        if named is None and name in sys.stdlib_module_names:
            return FoundModule(standard=True)
        if named is None and name in self.mapped:
            target = self.mapped[name]
            named = FoundModule((target,)) if target.endswith(".py") else self.package(target)
        return named or self._in_folders(name, (*first, *after)) or self._in_folders(name, self.assumed)

    def _in_folders(self, name: str, folders: Sequence[str], *, namespaces: bool = True) -> FoundModule | None:
        portions: list[str] = []
        for folder in folders:
            inside = self.folders.names(folder)
            if inside is None:
                continue
            path = f"{folder.rstrip('/')}/{name}"
            if name in inside and self.folders.is_file(f"{path}/__init__.py"):
                return FoundModule((f"{path}/__init__.py",), (path,))
            if f"{name}.py" in inside:
                return FoundModule((f"{path}.py",))
            if any(one.startswith(f"{name}.") and one.endswith(_NATIVE) for one in inside):
                return FoundModule()
            if name in inside and self.folders.is_folder(path):
                portions.append(path)
        return FoundModule((), tuple(portions)) if portions and namespaces else None
