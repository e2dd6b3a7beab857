A=1
unset A
torchrun t.py ${A:-none}
