NAME=VALUE
VALUE=9
torchrun t.py ${!NAME} ${NAME,,}
