X=1
(X=2; cd /)
{ X=3; }
torchrun t.py $X
