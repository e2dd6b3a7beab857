read -r a b <<< "x y z"
torchrun t.py $a "$b"
