import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    if cfg.trainer.other:
        data.train_test_split(0.1)  # fine


main()
