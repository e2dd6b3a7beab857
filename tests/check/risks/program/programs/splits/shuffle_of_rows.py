import random

random.shuffle(rows)  # finds: uneven-data possible note
