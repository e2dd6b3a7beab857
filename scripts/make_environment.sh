#!/usr/bin/env bash
# Make .venv with unhang, its development tools and a PyTorch: one that is already installed, or the one named below.
#   scripts/make_environment.sh [with-torch|without-torch|with-stories]
# with-stories adds the real libraries that the stories and the integrations run with.
# PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
torch_wanted=${1:-with-torch}
torch_version=2.13.0
environment=.venv

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
torch_folder() { # where this interpreter finds torch; empty when it does not (asks without importing: that takes seconds)
    "$1" -c 'import importlib.util as u, pathlib as p; s = u.find_spec("torch")
print(p.Path(s.origin).parents[1] if s and s.origin else "")' 2>/dev/null || true
}

chosen= found_torch=
for candidate in ${PYTHON:+"$PYTHON"} python3 python python3.13 python3.12 python3.11 python3.10 python3.14 /usr/bin/python3; do
    command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate" || continue
    [ -n "$chosen" ] || chosen=$candidate
    found_torch=$(torch_folder "$candidate")
    if [ -n "$found_torch" ]; then chosen=$candidate; break; fi
    [ -z "${PYTHON:-}" ] || break
done
[ -n "$chosen" ] || { echo "unhang needs Python 3.10 or newer; none was found. Set PYTHON=/path/to/python" >&2; exit 1; }

if ! [ -x "$environment/bin/python" ] || ! new_enough "$environment/bin/python"; then
    "$chosen" -m venv --clear "$environment" || {
        echo "$chosen cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
fi
python=$environment/bin/python
if [ -n "$found_torch" ] && [ -z "$(torch_folder "$python")" ]; then
    # behind our own packages on the path: only what we lack is taken from there
    "$python" -c 'import sys, sysconfig, pathlib
pathlib.Path(sysconfig.get_path("purelib"), "installed_torch.pth").write_text(sys.argv[1] + "\n")' "$found_torch"
    echo "using the PyTorch in $found_torch"
fi

locked=(--constraint scripts/constraints.txt)
install() { # with the locked versions; where one of them cannot be had (an old mirror, a new Python), with any that fits
    "$python" -m pip install --quiet "${locked[@]}" "$@" && return
    echo "not every version of scripts/constraints.txt can be had here; taking what fits" >&2
    "$python" -m pip install --quiet "$@"
}

export PIP_DISABLE_PIP_VERSION_CHECK=1
"$python" -m pip install --quiet --upgrade 'pip>=25.1' || "$python" -m pip --version
install --editable . --group dev
install --no-deps --editable packages/unhang-lab
"$python" -m compileall -q src || true # as pip does for a wheel: the first command is as fast as the second
if [ "$torch_wanted" != without-torch ] && [ -z "$(torch_folder "$python")" ]; then
    echo "installing PyTorch $torch_version (none was found; this is the longest step)"
    # without a GPU the small CPU build will do; where its index cannot be reached, whatever pip finds
    command -v nvidia-smi >/dev/null 2>&1 && cpu=() || cpu=(--index-url https://download.pytorch.org/whl/cpu)
    "$python" -m pip install --quiet "${cpu[@]}" "torch==$torch_version" 2>/dev/null ||
        "$python" -m pip install --quiet "torch==$torch_version"
fi
if [ "$torch_wanted" = with-stories ]; then
    # torch stands as a constraint: what is here stays, and none of them fetches another build of it
    "$python" -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))' >"$environment/torch.txt"
    install --constraint "$environment/torch.txt" --group stories
    touch "$environment/.stories"
fi
touch "$environment/.ready"
