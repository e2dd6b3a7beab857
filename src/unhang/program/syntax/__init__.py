"""One source file as a tree, and names followed over all files of a program."""
