import random
random.shuffle(files)  # fine
