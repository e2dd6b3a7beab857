import loaders

getattr(loaders, name)(data)
