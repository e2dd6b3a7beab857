N=${N:-8}
M=${M-4}
export K=${K:=2}
torchrun --nproc_per_node=$N --nnodes $M t.py --k ${K}
