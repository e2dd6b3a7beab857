def f(d):
    return d.train_test_split(0.1)  # finds: uneven-data likely stops
