"""What only looks like a branch on the rank is none."""

from __future__ import annotations

import pytest

from tests.facts.marked_source import kind_at

LOOK_ALIKES = {
    "world size": """
        def main():
            if dist.get_world_size() > 1:
                dist.barrier()  # HERE
        """,
    "is distributed, by local_rank": """
        def main(args):
            if args.local_rank != -1:
                dist.barrier()  # HERE
        """,
    "is distributed, by rank": """
        def main():
            rank = int(os.environ.get("RANK", -1))
            if rank >= 0:
                dist.barrier()  # HERE
        """,
    "is distributed, named": """
        ddp = int(os.environ.get("RANK", -1)) != -1
        if ddp:
            dist.barrier()  # HERE
        """,
    "is distributed, by None": """
        def main(rank=None):
            if rank is not None:
                dist.barrier()  # HERE
        """,
    "is distributed, by environment": """
        if "RANK" in os.environ:
            dist.barrier()  # HERE
        """,
    "after a branch that only prints": """
        def main():
            if dist.get_rank() == 0:
                print("hello")
            dist.barrier()  # HERE
        """,
    "before the branch": """
        def main():
            dist.barrier()  # HERE
            if dist.get_rank() == 0:
                return
        """,
    "in the test itself": """
        def main():
            if dist.all_gather_object(a, b) and step > 3:  # HERE
                pass
        """,
    "rank of a matrix": """
        def main(x):
            rank = torch.linalg.matrix_rank(x)
            if rank > 3:
                dist.barrier()  # HERE
        """,
    "rank of an adapter": """
        def main(args):
            rank = args.lora_rank
            if rank > 8:
                dist.barrier()  # HERE
        """,
    "rank in a ranking": """
        def main(items):
            for rank, item in enumerate(items):
                if rank == 0:
                    dist.barrier()  # HERE
        """,
    "loop over all ranks": """
        def main():
            for r in range(dist.get_world_size()):
                if r > 0:
                    dist.barrier()  # HERE
        """,
    "device of the rank": """
        def main():
            model = DDP(model, device_ids=[dist.get_rank()])
            if model.training:
                dist.barrier()  # HERE
        """,
    "first process goes first": """
        def main():
            with accelerator.main_process_first():
                data = load()  # HERE
        """,
    "step": """
        def main():
            for step in range(100):
                if step % 10 == 0:
                    dist.barrier()  # HERE
        """,
    "return in an inner function": """
        def main():
            def show():
                if dist.get_rank() != 0:
                    return
                print("x")
            show()
            dist.barrier()  # HERE
        """,
    "continue of an inner loop": """
        def main():
            for epoch in range(3):
                for i in range(5):
                    if dist.get_rank() == 0:
                        continue
                    print(i)
                dist.barrier()  # HERE
        """,
    "print in a ternary": """
        def main():
            name = "a" if dist.get_rank() == 0 else "b"; dist.barrier()  # HERE
        """,
    "other branch of a nested if": """
        def main():
            if step:
                if dist.get_rank() == 0:
                    print("x")
                dist.barrier()  # HERE
        """,
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_is_not_a_branch_on_the_rank(name: str) -> None:
    assert kind_at(LOOK_ALIKES[name]) is None
