from accelerate.utils import set_seed

set_seed(1)
dataset.train_test_split(0.1)  # fine
