numpy.random.seed(config.seed)
