# fine handed down beside another: use(cfg, cfg.trainer) => use(cfg, cfg.trainer)\n    use(call(), 1)
def use(c, t):
    if c.trainer.tb or t.tb:
        data.train_test_split(0.1)  # finds: left out


import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    use(cfg, cfg.trainer)


main()
