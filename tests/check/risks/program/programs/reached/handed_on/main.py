import loaders

make = loaders.by_rows
