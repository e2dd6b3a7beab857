import lightning as L


class Model(L.LightningModule):
    def training_step(self, batch, at):
        self.log("loss", 1, sync_dist=False)


class Writes(L.Callback):
    def on_validation_epoch_end(self, trainer, module):
        if trainer.is_global_zero:
            print(trainer.callback_metrics)  # fine


L.Trainer(callbacks=[Writes()]).fit(Model())
