# also by any name: (0.2) => (0.2)  # finds: uneven-data likely stops && loaders.by_rows => getattr(loaders, name)
# also handed on: loaders.by_rows(data) => make = loaders.by_rows
# also imported as: import loaders => from loaders import by_rows as rows && loaders.by_rows => rows
# fine of arguments: loaders.by_rows(data) => print(getattr(args, name))
import loaders

loaders.by_rows(data)
