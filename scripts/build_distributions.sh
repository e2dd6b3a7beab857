#!/usr/bin/env bash
# Build what a release publishes: the sdists of unhang and unhang-lab, and from each, as somebody without the clone
# would, its wheel. PYTHON names an interpreter that has hatchling.   scripts/build_distributions.sh FOLDER
set -euo pipefail
to=$(realpath "$1")
cd "$(dirname "$0")/.."
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
build() { (cd "$2" && "${PYTHON:-python3}" -m hatchling build -t "$1" -d "$to"); } # sdist|wheel, of which folder
build sdist .
build sdist packages/unhang-lab
for sdist in "$to"/*.tar.gz; do tar xf "$sdist" -C "$unpacked"; done
for folder in "$unpacked"/*; do build wheel "$folder"; done
