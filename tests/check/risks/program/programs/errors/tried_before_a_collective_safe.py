from kit import helper


def decode(x):
    return x


def update(every):
    for rows in every:
        helper.send(rows)


for peer in range(9):
    try:
        update(peer)  # fine
    except Exception:
        print("bad")
