X="a b"
torchrun t.py "$X" $X '$X' "\$X" a\ b $'c\td'
