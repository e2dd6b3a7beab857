if [ $# -ne 0 ]; then MORE="$*"; fi
torchrun t.py $MORE "$1" "${@:2}"
