for i in {0..2}; do L+="$i "; done
torchrun t.py $L
