N=3
W=$((N * 8 / 2 + N % 2))
((W++))
torchrun t.py $W
