import numpy as np

part = rows[np.random.rand(9) < 0.5]  # finds: np.random.rand no-seed numpy, seeded at 4: np.random.seed
