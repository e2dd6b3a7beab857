# read
