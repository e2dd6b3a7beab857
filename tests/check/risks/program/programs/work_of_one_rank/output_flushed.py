import sys

for step in range(9):
    sys.stdout.flush()  # fine
