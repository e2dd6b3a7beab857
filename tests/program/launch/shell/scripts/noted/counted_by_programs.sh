D=0,1,2
N=$(echo $D | tr "," "\n" | wc -l)  # finds: --nproc_per_node $(echo $D | tr "," "\n" | wc -l): known only at run time
M=$(echo $D | awk -F, "{print NF}")  # finds: --m $(echo $D | awk -F, "{print NF}"): known only at run time
torchrun --nproc_per_node $N t.py --m $M
