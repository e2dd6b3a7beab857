while getopts "n:v" o; do case $o in n) N=$OPTARG;; v) V=1;; esac; done
torchrun t.py $N $V
