"""Stand-in for the plant: sends frames, at most a window of them unconfirmed."""
import random
import struct
import sys

window = int(sys.argv[1])
rng = random.Random(1)
out = sys.stdout.buffer
while True:
    for _ in range(window):
        out.write(struct.pack("512f", *(rng.gauss(0, 1) for _ in range(512))))
        out.flush()
    if not sys.stdin.buffer.read(1):
        break
