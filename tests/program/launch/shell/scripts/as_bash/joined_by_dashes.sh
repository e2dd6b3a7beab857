A=a B=b C=c
X=$A--$B--$C
export Y=./$A--$B--$C
Z=$A//$B// torchrun t.py $X $Y $A--$B--$C --o=$A/$B--$C:$A "$A--$B--$C" '$A--$B--$C'
