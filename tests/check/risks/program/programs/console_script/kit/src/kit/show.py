# launch: uv run kit show
print(1)
