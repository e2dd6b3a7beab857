import numpy as np

part = rows[np.random.rand(9) < 0.5]  # fine
