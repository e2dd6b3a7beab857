ARGS=(--a "b c")
ARGS+=(--d)
torchrun t.py "${ARGS[@]}" ${#ARGS[@]} "${ARGS[1]}"
