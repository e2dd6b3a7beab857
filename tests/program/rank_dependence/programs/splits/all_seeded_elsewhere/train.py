set_seed(42)
