A=1
torchrun t.py ${A:+--given} ${NONE:+--none}
