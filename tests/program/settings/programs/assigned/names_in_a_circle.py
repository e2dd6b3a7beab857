import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def main():
    args = p.parse_args()
    n0 = None
    if n1:
        n0 = n1
    n1 = None
    if n2:
        n1 = n2
    n2 = None
    if n3:
        n2 = n3
    n3 = None
    if n4:
        n3 = n4
    n4 = None
    if n5:
        n4 = n5
    n5 = None
    if n6:
        n5 = n6
    n6 = None
    if n7:
        n6 = n7
    n7 = None
    if n8:
        n7 = n8
    n8 = None
    if n0:
        n8 = n0
    if n0:
        data.train_test_split(0.1)  # fine


main()
