while read -r a b; do L="$L $b:$a"; done <<EOF
1 2 3
4
EOF
read <<< "x y"
torchrun t.py $L "$REPLY"
