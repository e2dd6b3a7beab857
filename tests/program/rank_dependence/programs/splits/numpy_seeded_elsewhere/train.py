np.random.seed(42)
