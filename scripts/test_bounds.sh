#!/usr/bin/env bash
# Run the quick tests of the command line with the lowest or the newest dependencies that pyproject.toml allows, in an
# environment of its own that is removed afterwards. What they deprecate in each other is not ours.   scripts/test_bounds.sh lowest|newest
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"${PYTHON:-python3}" -m venv "$environment/venv"
python=$environment/venv/bin/python
bounds=()
if [ "${1:-lowest}" = lowest ]; then
    "$python" - >"$environment/lowest.txt" <<'LOWEST'
import re
text = open("pyproject.toml", encoding="utf-8").read().partition("\ndependencies = [")[2].partition("\n]")[0]
for name, lowest, condition in re.findall(r'"([\w-]+)>=([\d.]+)[^";]*(;[^"]*)?"', text):
    print(f"{name}=={lowest} {condition}")
LOWEST
    cat "$environment/lowest.txt"
    bounds=(--constraint "$environment/lowest.txt")
fi
"$python" -m pip install --quiet "${bounds[@]}" . 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.100' 'jsonschema>=4.22'
"$python" -m pip install --quiet --no-deps ./packages/unhang-lab # some tests read its help; none of them needs PyTorch
"$python" -m pip list 2>/dev/null | grep -iE '^(numpy|rich|typer|msgspec|jinja2|pyyaml|packaging|tomli|sqlalchemy|alembic|hyperscan|tree.sitter|tree.sitter.bash) '
"$python" -P -m pytest -q -p no:cacheprovider -W ignore::DeprecationWarning tests/cli/test_cli.py tests/report/explain/test_explain.py tests/test_cases.py tests/test_start_up.py \
    tests/evidence/logs/scan/test_literal_search.py tests/evidence/flight_recorder/test_reading.py tests/report \
    --deselect tests/report/test_json.py::test_the_schema_in_the_docs_is_current # msgspec lists unions in another order
