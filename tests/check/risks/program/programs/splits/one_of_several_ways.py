# launch: torchrun one_of_several_ways.py
import yaml

for one in yaml.safe_load(open("data.yaml"))["datasets"]:
    how = one.get("sampling", "all")
    rows = load(one["path"])
    if how == "random":
        rows = rows.train_test_split(0.1)["train"]
    elif how == "first":
        rows = rows[:1000]
