if [[ $X == 1 ]]; then A=1 B=2
elif [[ 2 == 2 ]]; then A=3 B=4
fi
torchrun t.py $A $B
