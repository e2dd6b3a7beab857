import loaders

print(getattr(args, name))
