# fine tried before a collective safe:         if helper.first:\n            decode(rows)\n =>
from kit import helper


def decode(x):
    return x


def update(every):
    for rows in every:
        if helper.first:
            decode(rows)
        helper.send(rows)


for peer in range(9):
    try:
        update(peer)  # finds: rank-conditional-collective possible stops "catches an exception before"
    except Exception:
        print("bad")
