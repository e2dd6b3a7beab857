"""Lightning with our callback: the same losses, and what it does is said; faults before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.inprocess import annotations as marked

pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]


def fit(library: str, folder: Path, callbacks: list[Any], *, rows: int = 16, width: int = 4, **more: Any) -> list[Any]:
    """The losses of two epochs with two validations and a checkpoint each, then the weights."""
    import importlib
    import warnings

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    warnings.simplefilter("ignore")
    pl = importlib.import_module(library)
    losses: list[float] = []

    class Tiny(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Sequential(
                torch.nn.Linear(3, width), torch.nn.Dropout(0.1), torch.nn.Linear(width, 1)
            )

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.layer(batch[0]).square().mean()
            losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val", self.layer(batch[0]).mean(), sync_dist=True)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    pl.seed_everything(3, verbose=False)
    model = Tiny()
    data = DataLoader(TensorDataset(torch.arange(rows * 3.0).view(rows, 3) / 9), batch_size=2)
    logger = importlib.import_module(f"{library}.loggers").TensorBoardLogger(str(folder), name=library)
    settings = {"max_epochs": 2, "num_sanity_val_steps": 0, "log_every_n_steps": 1, "accumulate_grad_batches": 2}
    trainer = pl.Trainer(
        **settings | more,
        accelerator="cpu",
        strategy=importlib.import_module(f"{library}.strategies").DDPStrategy(
            cluster_environment=importlib.import_module(
                library.replace("lightning.pytorch", "lightning.fabric").replace(
                    "pytorch_lightning", "lightning_fabric"
                )
                + ".plugins.environments"
            ).TorchElasticEnvironment(),
            process_group_backend="gloo",
        ),
        devices=2,
        default_root_dir=str(folder),
        logger=logger,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data, DataLoader(TensorDataset(torch.ones(4, 3)), batch_size=2))
    return [*losses, *(weight.tolist() for weight in model.parameters())]


def everything(rank: int, library: str, folder: Path) -> dict[str, Any]:
    import importlib

    from unhang.errors import RanksDiffer

    name = "lightning" if library.startswith("lightning.") else library
    callback = importlib.import_module(f"unhang.integrations.{name}").UnhangCallback
    plain = fit(library, folder, [])
    marked.reset_annotations()
    guarded = fit(library, folder, [callback(background_logs=True)])
    found = {
        "same": plain == guarded,
        "steps": marked.steps()[0],
        "said": {name: spent.times for name, spent in marked.spent().items()},
        "open": bool(marked._current.marks),
        "events": sum(path.stat().st_size for path in folder.rglob("events*")),
    }
    for name, more in {
        "rows": {"rows": 16 + 8 * rank},
        "settings": {"accumulate_grad_batches": 2 + rank},
        "width": {"width": 4 + rank},
    }.items():
        try:
            fit(library, folder, [callback()], **more)
        except RanksDiffer as error:
            found[name] = str(error)
    return found


def only_the_first_saves(rank: int, folder: Path) -> None:
    from lightning.pytorch import Callback

    from unhang.integrations.lightning import UnhangCallback

    class OnTheFirst(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if rank == 0 and trainer.global_step == 1:
                trainer.save_checkpoint(folder / "alone.ckpt")

    fit("lightning.pytorch", folder, [OnTheFirst(), UnhangCallback(patience_s=3)])


@pytest.mark.live
def test_a_checkpoint_that_only_one_rank_writes_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    first, _ = run_ranks(only_the_first_saves, tmp_path, until=0, limit_s=120)

    assert first.error == "RanksMissing", first.trace
    assert first.attributes["ranks"] == (1,)


@pytest.mark.parametrize("library", ["lightning.pytorch", pytest.param("pytorch_lightning", marks=pytest.mark.live)])
def test_it_trains_as_without_us_and_names_what_differs(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library.partition(".")[0])
    for outcome in run_ranks(everything, library, tmp_path, limit_s=250):
        found = outcome.get()

        assert found["same"]
        assert found["steps"] == 4
        assert found["said"] == {"evaluation": 2, "save": 2}
        assert not found["open"]
        assert found["events"] > 500
        assert "batches per epoch of training" in found["rows"]
        assert "settings of the Trainer['accumulate_grad_batches']: 2 on rank 0, 3 on rank 1" in found["settings"]
        assert "parameters of the model['layer.0.bias']: '(4,) float32' on rank 0, '(5,) float32'" in found["width"]
