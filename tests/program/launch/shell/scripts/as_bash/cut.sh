P=/a/b/c.tar.gz
torchrun t.py ${P##*/} ${P%.*} ${P%%.*} ${P#*/} ${P/b/x} ${P//a/y}
