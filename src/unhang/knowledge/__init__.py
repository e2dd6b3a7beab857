"""What messages, variables, codes and versions mean: data files and the loader that checks them."""
