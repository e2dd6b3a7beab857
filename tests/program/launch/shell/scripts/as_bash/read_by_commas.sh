D=0,1,2
IFS=, read -ra CARDS <<< "$D"
IFS="," read a b <<< "$D"
torchrun --nproc_per_node ${#CARDS[@]} t.py $a "$b"
