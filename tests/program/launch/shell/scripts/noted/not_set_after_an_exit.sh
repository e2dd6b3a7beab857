mkdir -p out
if [ ! -d out/x ]; then exit 1; fi
torchrun t.py $X  # finds: $X: X is not set here
