for i in 1 2 3; do S="$S,$i"; done
for ((j=0;j<2;j++)); do S="$S,$j"; done
torchrun t.py ${S#,}
