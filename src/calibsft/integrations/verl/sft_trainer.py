"""verl's SFT trainer with CalibSFT's loss: torchrun -m calibsft.integrations.verl.sft_trainer, with verl's options.

verl's config names a dataset class but neither a loss nor an order of rows. So two of its steps are extended here, and
this module is started instead of verl's.
"""

import hydra
from omegaconf import DictConfig
from verl.trainer.sft_trainer import SFTTrainer
from verl.utils.device import auto_set_device
from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

from calibsft.integrations.verl.sft_loss import weighted_loss


class CalibSftTrainer(SFTTrainer):  # type: ignore[misc]
    """Trains on `CalibSftDataset`."""

    def _build_engine(self) -> None:
        super()._build_engine()
        self.training_client.set_loss_fn(loss_fn=weighted_loss)

    def _build_dataloader(self) -> None:
        super()._build_dataloader()
        # The dataset is in its order already, and weights belong to the batches of that order.
        self.train_sampler.shuffle = False


@hydra.main(config_path=None, config_name=None, version_base=None)  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """Train in every process of a launcher."""
    auto_set_device(config)
    initialize_global_process_group()
    CalibSftTrainer(config=config).fit()
    destroy_global_process_group()


if __name__ == "__main__":
    main()
