from accelerate.utils import set_seed

set_seed(1, device_specific=True)
dataset.train_test_split(0.1)  # finds: uneven-data likely stops
