rng = np.random.default_rng(dist.get_rank())
rng.shuffle(rows)  # finds: rng.shuffle seed-differs
