dist.init_process_group("nccl", timeout=timedelta(seconds=60))  # finds: device-mapping possible note
with accelerator.autocast():
    data = raw.map(encode)
