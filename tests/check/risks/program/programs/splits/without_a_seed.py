parts = dataset.train_test_split(test_size=0.1)  # finds: uneven-data likely stops
