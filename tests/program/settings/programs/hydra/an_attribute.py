import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    if cfg.trainer.tb:
        data.train_test_split(0.1)  # finds: left out


main()
