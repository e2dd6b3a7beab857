# fine metrics not synchronised: True => False
# fine metrics read by all: if trainer.is_global_zero => for _ in range(1)
import lightning as L


class Model(L.LightningModule):
    def training_step(self, batch, at):
        self.log("loss", 1, sync_dist=True)


class Writes(L.Callback):
    def on_validation_epoch_end(self, trainer, module):
        if trainer.is_global_zero:
            print(trainer.callback_metrics)  # finds: rank-conditional-collective possible stops


L.Trainer(callbacks=[Writes()]).fit(Model())
