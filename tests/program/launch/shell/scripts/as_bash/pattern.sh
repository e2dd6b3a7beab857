X=a-azure-b
[[ "$X" == *"azure"* ]] && A=1
[[ "" == *"azure"* ]] && B=1
torchrun t.py ${A:-0} ${B:-0}
