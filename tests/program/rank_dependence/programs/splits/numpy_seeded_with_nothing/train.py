np.random.seed()
