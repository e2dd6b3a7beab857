A=(--a 1)
B=(--b)
C="torchrun t.py ${A[@]} \
   ${B[@]} \
   $B"
eval $C
