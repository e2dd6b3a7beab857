set -euo pipefail
set -- x y
torchrun t.py $1 ${2}
