D=0,1,2
torchrun t.py $(echo $D | tr "," "\n" | wc -l) $(echo $D | awk -F, "{print NF}")
