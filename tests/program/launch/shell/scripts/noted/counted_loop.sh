for ((i=0; i<2; i++)); do S="$S,$i"; done  # finds: --s $S: it depends on the condition on line 1
torchrun t.py --s $S
