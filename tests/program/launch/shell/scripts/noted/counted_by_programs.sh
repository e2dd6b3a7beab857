D=0,1,2
N=$(echo $D | tr "," "\n" | wc -l)  # finds: --nproc_per_node $(echo $D | tr "," "\n" | wc -l): only running it tells
M=$(echo $D | awk -F, "{print NF}")  # finds: --m $(echo $D | awk -F, "{print NF}"): only running it tells
torchrun --nproc_per_node $N t.py --m $M
