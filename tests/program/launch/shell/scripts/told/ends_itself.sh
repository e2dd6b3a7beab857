if [ -z "$DATA" ]; then
  echo set DATA
  exit 1
fi
torchrun t.py
