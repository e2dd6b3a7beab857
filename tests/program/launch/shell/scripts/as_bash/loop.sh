for i in 1 2 3; do S="$S,$i"; done
torchrun t.py ${S#,}
