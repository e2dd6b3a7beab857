cd $WORK/x  # finds: which folder cd $WORK/x leads to is not known
torchrun t.py
