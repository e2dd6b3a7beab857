from torch.utils.tensorboard import SummaryWriter

w = SummaryWriter("tb")
for step in range(9):
    if step % 50 == 0:
        w.flush()  # fine
for step in range(9):
    if not done and step < last + tick:
        continue
    w.flush()  # fine
