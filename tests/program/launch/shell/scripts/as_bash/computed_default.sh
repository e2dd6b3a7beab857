A=2
B=3
N=${N:-$((A * B))}
torchrun t.py $N $(expr 16 / $A)
