import numpy as np

if repeat:
    np.random.seed(42)
else:
    part = data[np.random.rand(9) < 0.5]  # finds: np.random.rand no-seed numpy
