dataset = dataset.train_test_split(test_size=0.1)[split]  # finds: dataset.train_test_split no-seed numpy
