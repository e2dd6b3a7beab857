g = train_test_split(rows, random_state=dist.get_rank())  # finds: train_test_split seed-differs numpy
