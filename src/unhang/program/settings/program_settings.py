"""All settings of a program: what it declares, what its names hold, and what this launch sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.settings.configuration_names import OPTIONS, ConfigNames
from unhang.program.settings.declared_options import DeclaredSetting, DeclaredSettings, find_declared_settings
from unhang.program.settings.option_values import EffectiveValue, OptionValues, common_value
from unhang.program.syntax.evaluation import UNKNOWN


@dataclass(slots=True)
class ProgramSettings:
    """Everything a program declares, what its names hold, and what this launch sets."""

    declared: DeclaredSettings
    names: ConfigNames
    values: OptionValues

    def field_paths(self, kind: str, deep: int = 4) -> tuple[str, ...]:
        """How the command reaches a class that is a field of another: ``metrics`` for ``MetricsConfig``."""
        if deep <= 0:
            return ()
        found = [
            f"{above}.{one.name}" if above else one.name
            for owner, held in self.declared.classes.items()
            for one in held.fields.values()
            if one.kind == kind and owner != kind
            for above in (self.field_paths(owner, deep - 1) or ("",))
        ]
        return tuple(found)

    def _is_filled_in(self, kind: str, one: DeclaredSetting) -> bool:
        """The program sets attributes of this kind by names that are not in its source."""
        only_none = self.names.filled_in.get(kind)
        return only_none is not None and (one.default is None or not only_none)

    def of_class(self, kind: str, name: str) -> EffectiveValue | None:
        """The field ``name`` of the class ``kind``; None where it has none."""
        one = self.declared.field_of(kind, name)
        if one is None:
            return None
        made, assigned = self.names.made_otherwise.get(kind, set()), name in self.names.changed
        if self._is_filled_in(kind, one) or made & {"*", name} or assigned or self.declared.is_changed(kind, name):
            return EffectiveValue(name, UNKNOWN, one.place)
        paths = self.field_paths(kind)
        spellings = [f"{path}.{name}" for path in paths]
        if kind in self.names.roots or not paths:
            spellings.insert(0, name)
        return self.values.of(one, [*spellings, f"{kind}.{name}"])

    def of_option(self, name: str) -> EffectiveValue | None:
        """The option with the destination ``name``; None where no parser has one."""
        found = self.declared.options.get(name, [])
        if not found:
            return None
        if name.rpartition(".")[2] in self.names.changed or any(self._is_filled_in(OPTIONS, one) for one in found):
            return EffectiveValue(name, UNKNOWN, found[0].place)
        told = [self.values.of(one, [*one.names, one.name]) for one in found]
        return common_value(told) or EffectiveValue(name, UNKNOWN, found[0].place)

    def of_parameter(self, one: DeclaredSetting) -> EffectiveValue:
        """A parameter of a function that the command line calls."""
        return self.values.of(one, [*one.names, one.name])


def read_program_settings(
    files: Sequence[SourceFile], libraries: Sequence[SourceFile], values: OptionValues
) -> ProgramSettings:
    """The settings of a program, own files before those of libraries."""
    declared = find_declared_settings((*libraries, *files))
    names = ConfigNames(declared)
    names.read(files)
    return ProgramSettings(declared, names, values)
