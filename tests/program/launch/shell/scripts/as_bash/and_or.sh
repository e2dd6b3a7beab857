[ -z "$NO" ] && A=1 || A=2
[ "$A" = 2 ] || B=3
torchrun t.py $A $B
