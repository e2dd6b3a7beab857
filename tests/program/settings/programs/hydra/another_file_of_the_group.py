# launch: torchrun another_file_of_the_group.py data=large
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    if cfg.data.split > 0:
        data.train_test_split(0.1)  # fine


main()
