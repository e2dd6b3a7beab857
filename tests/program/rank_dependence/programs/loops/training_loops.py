"""Where a line stands to the loops around and before it."""


def in_the_loop():
    for batch in loader:
        model(batch).sum().backward()  # finds: inside-loop over loader


def the_own_line_fetches_the_next_batch():
    for batch in loader:  # finds: inside-loop over loader
        model(batch).sum().backward()


def after_the_loop():
    for batch in DataLoader(data):
        model(batch).sum().backward()
    save(model)  # finds: after-loop


def after_the_inner_loop_in_the_epoch_loop():
    for epoch in range(3):
        for batch in loader:
            model(batch).sum().backward()
        dist.barrier()  # finds: after-loop


def in_the_evaluation_loop_after_the_training_loop():
    for batch in loader:
        model(batch).sum().backward()
    for batch in val_loader:
        dist.all_reduce(model(batch))  # finds: inside-loop over val_loader


def loop_of_collectives_without_a_loader(n):
    for i in range(n):
        dist.all_reduce(x)
    dist.barrier()  # finds: after-loop


def one(x):
    x.backward()


def more(x):
    one(x)


def loop_whose_step_is_a_function(things):
    for i in things:
        more(i)
    dist.barrier()  # finds: after-loop


def loop_inside_with_and_try():
    try:
        with profile():
            while True:
                batch = next(batches)
                train(batch)
    finally:
        pass
    dist.barrier()  # finds: after-loop


def else_of_the_loop():
    for batch in loader:
        model(batch).backward()
    else:
        dist.barrier()  # finds: after-loop


def after_a_loop_that_is_no_training():
    for p in model.parameters():
        p.requires_grad = False
    dist.barrier()  # fine


def before_the_loop():
    dist.barrier()  # fine
    for batch in loader:
        model(batch).backward()


def handler():
    for batch in loader:
        try:
            model(batch).backward()
        except RuntimeError:
            time.sleep(100)  # finds: except-handler over loader


def handler_with_a_test_of_the_rank_inside():
    try:
        step()
    except RuntimeError:
        if dist.get_rank() == 0:
            dist.barrier()  # finds: rank-branch


def finally_is_no_handler():
    try:
        step()
    except ValueError:
        pass
    finally:
        dist.barrier()  # fine


def gradients_averaged_inside_the_step():
    for step in range(10):
        loss.backward()
        for p in grads:
            dist.all_reduce(p)
        optimizer.step()  # finds: inside-loop


def weights_sent_before_training():
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    dist.barrier()  # fine
    for batch in loader:
        model(batch).backward()


def after_the_rounds_of_a_loop_of_epochs_that_only_communicates():
    for epoch in range(3):
        for i in range(n):
            dist.all_reduce(x)
        dist.barrier()  # finds: after-loop


def a_loader_under_any_name():
    things = DataLoader(Data())
    for thing in enumerate(things):
        use(thing)  # finds: inside-loop over enumerate(things)
