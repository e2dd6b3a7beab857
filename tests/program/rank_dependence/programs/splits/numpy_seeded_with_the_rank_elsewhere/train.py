rank = dist.get_rank()
np.random.seed(42 + rank)
random.seed(42)
