import numpy as np
from sklearn.model_selection import train_test_split

train, test = train_test_split(rows)  # finds: train_test_split no-seed numpy, seeded at 5: np.random.seed
np.random.seed(42)
order = np.random.permutation(9)  # fine
