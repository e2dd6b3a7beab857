cd $WORK/x  # finds: the folder that cd $WORK/x leads to is not known
torchrun t.py
