from loaders import by_rows as rows

rows(data)
