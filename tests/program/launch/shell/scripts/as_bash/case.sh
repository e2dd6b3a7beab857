M=7b
case $M in
  7b|8b) L=32;;
  *) L=80;;
esac
torchrun t.py --layers $L
