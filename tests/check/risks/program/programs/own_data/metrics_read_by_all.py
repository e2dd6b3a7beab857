import lightning as L


class Model(L.LightningModule):
    def training_step(self, batch, at):
        self.log("loss", 1, sync_dist=True)


class Writes(L.Callback):
    def on_validation_epoch_end(self, trainer, module):
        for _ in range(1):
            print(trainer.callback_metrics)  # fine


L.Trainer(callbacks=[Writes()]).fit(Model())
