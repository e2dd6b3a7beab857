"""How often a loop runs hangs on the rank: where that is settled beforehand, and where a rank finds it out."""

import torch.distributed as dist


def left_when_the_rank_says(args, loader, n):
    rank = dist.get_rank()
    for step in range(99):
        if step >= n + 40 * (1 - rank):
            break  # finds: break round alone, step >= n + 40 * (1 - rank)
        work()


def left_by_rank_0_at_a_step(args, loader, n):
    rank = dist.get_rank()
    for step in range(99):
        work()
        if rank == 0 and step == n:
            break  # finds: break round alone, rank == 0 and step == n


def returned_from_when_the_rank_says(args, loader, n):
    rank = dist.get_rank()
    for i, batch in enumerate(loader):
        if i == args.steps - rank:
            return  # finds: return round, i == args.steps - rank
        work()


def returned_from_at_a_step(args, loader, n):
    rank = dist.get_rank()
    step = 0
    while True:
        work()
        step += 1
        if step == 12 and rank:
            return  # finds: return round alone, step == 12 and rank


def left_within_two_tests(args, loader, n):
    rank = dist.get_rank()
    step = 0
    while True:
        step = step + 1
        if rank == 0:
            if step > len(loader):
                break  # finds: break round alone, rank == 0 and step > len(loader)


def ended_at_a_step(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        with ctx:
            if rank == 1 and step == 3:
                exit(0)  # finds: exit round alone, rank == 1 and step == 3


def left_after_another_test(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank != 0:
            pass
        elif step == 3:
            break  # finds: break round alone, not rank != 0 and step == 3


def as_many_rounds_as_the_rank_says(args, loader, n):
    rank = dist.get_rank()
    for step in range(10 + rank):  # finds: loop round alone, range(10 + rank)
        work()


def while_the_rank_says(args, loader, n):
    rank = dist.get_rank()
    step = 0
    while step < n + rank:  # finds: loop round alone, step < n + rank
        step += 1


def left_for_its_own_loss(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and loss < 0.1:
            break  # finds: break finding, rank == 0 and loss < 0.1


def left_for_its_own_item_of_the_loss(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and loss.item() < 0.1:
            break  # finds: break finding, rank == 0 and loss.item() < 0.1


def left_for_its_own_count(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and bad >= 3:
            break  # finds: break finding, rank == 0 and bad >= 3


def left_for_its_own_function(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and should_stop(step):
            break  # finds: break finding, rank == 0 and should_stop(step)


def left_for_its_own_batch(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and batch.done:
            break  # finds: break finding, rank == 0 and batch.done


def left_for_its_own_attribute(self, args, loader, n):
    rank = dist.get_rank()
    bad = 0
    for step, batch in enumerate(loader):
        loss = work(batch)
        if loss > 9:
            bad += 1
        if rank == 0 and self.bad > step:
            break  # finds: break finding, rank == 0 and self.bad > step


def left_alone_in_the_first_round(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank != 0:
            break  # finds: break rank alone, rank != 0
        work()


def left_within_tests_that_are_told_together(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank == 0:
            if step == 3:
                break  # finds: break round alone, rank == 0 and step == 3
        work()


def left_by_a_name_alone(rank):
    for step in range(9):
        if step == 3 - rank:
            break  # finds: break round alone by name, step == 3 - rank


def left_beside_a_range(args, loader, n):
    rank = dist.get_rank()
    step = 0
    for step in range(99):
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round alone, rank == 0 and step == 3
        work()


def left_beside_a_setting(args, loader, n):
    rank = dist.get_rank()
    step = 0
    for step in range(args.steps):
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round alone, rank == 0 and step == 3
        work()


def left_beside_no_end(args, loader, n):
    rank = dist.get_rank()
    step = 0
    while True:
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round alone, rank == 0 and step == 3
        work()


def left_beside_batches(args, loader, n):
    rank = dist.get_rank()
    step = 0
    for step, batch in enumerate(loader):
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round, rank == 0 and step == 3
        work()


def left_beside_a_length(args, loader, n):
    rank = dist.get_rank()
    step = 0
    for step in range(len(loader)):
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round, rank == 0 and step == 3
        work()


def left_beside_steps_below_a_length(args, loader, n):
    rank = dist.get_rank()
    step = 0
    while step < len(loader):
        step += 1
        if rank == 0 and step == 3:
            break  # finds: break round, rank == 0 and step == 3
        work()


def same_rounds_goes_on(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank == 0 and step == 3:
            continue  # fine
        work()


def same_rounds_at_a_step_of_all(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if step == n:
            break  # fine
        work()


def same_rounds_inner_loop(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        for i in range(3):
            if rank == i:
                break  # fine
        work()


def same_rounds_raises(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank == 0 and step == 3:
            raise ValueError  # fine
        work()


def same_rounds_inner_function(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):

        def stop():
            if rank == 0 and step == 3:
                return  # fine

        work()


def same_rounds_test_that_holds_for_all(args, loader, n):
    rank = dist.get_rank()
    for step in range(9):
        if rank >= 0 and step == 3:
            break  # fine
        work()
