import loaders

call("by_name")
