"""What messages, variables, codes and versions mean: data files and the loaders that check them."""
