A=()
B=""
$B "${A[@]}" torchrun "${A[@]}" t.py "$@" "${A[*]}" "$B"
