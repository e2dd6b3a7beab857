set_seed(args.seed)
random.shuffle(rows)  # fine
