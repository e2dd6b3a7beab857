def set_seed(seed):
    random.seed(seed)


set_seed(42)
