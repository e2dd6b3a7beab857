def use(c, t):
    if c.trainer.tb or t.tb:
        data.train_test_split(0.1)  # fine


import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    use(cfg, cfg.trainer)
    use(call(), 1)


main()
