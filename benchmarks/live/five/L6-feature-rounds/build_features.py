"""Writes the features of one round."""
import os
import sys
import time

import numpy as np

path, number, pages = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(number)
parts = []
for page in range(pages):
    parts.append(rng.normal(size=(100, 40)).astype("f4"))
    time.sleep(0.22)
np.save(path + ".part.npy", np.concatenate(parts))
os.replace(path + ".part.npy", path)
