import loaders

loaders.by_rows(data)
