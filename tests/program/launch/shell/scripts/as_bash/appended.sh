ARGS="--a 1"
ARGS+=" --b 2"
ARGS="$ARGS --c 3"
torchrun t.py $ARGS "$ARGS"
