# launch: torchrun t.py
def f():
    from late import x
