L=$(pick)
$L t.py  # finds: what $(pick) is, which starts t.py
