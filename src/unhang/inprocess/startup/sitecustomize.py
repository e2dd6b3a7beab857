"""Runs at the start of every Python process whose PYTHONPATH holds this folder; then gives way to the user's own.

Python imports one module of this name. Ours does its part, takes its folder off ``sys.path`` again and lets the
``sitecustomize`` Python would have found without us run in its place: with its own name, its own errors, or, where
there is none, with the ImportError that Python expects then. ``usercustomize`` is not touched.
"""

import sys

_FOLDER = __file__.rpartition("/")[0]
_PACKAGE = _FOLDER.rpartition("/")[0].rpartition("/")[0]


def _begin() -> None:
    """Make ``unhang`` importable without touching ``sys.path``, and begin; whatever goes wrong stays here."""
    try:
        if "unhang" not in sys.modules:
            from _frozen_importlib import module_from_spec
            from _frozen_importlib_external import spec_from_file_location

            spec = spec_from_file_location("unhang", _PACKAGE + "/__init__.py", submodule_search_locations=[_PACKAGE])
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            sys.modules["unhang"] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules["unhang"]
                raise
        from unhang.inprocess import entry

        entry.begin("path")
    except Exception:  # noqa: BLE001, S110  the user's program starts whatever happens to us
        pass


def _give_way() -> None:
    """Run the next ``sitecustomize`` on the path, as Python would have."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    if _FOLDER in sys.path:
        sys.path.remove(_FOLDER)
    del sys.modules[__name__]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("sitecustomize", None)
        raise


_begin()
_give_way()
