"""What training minimises."""

from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import PAD_ID


def cross_entropy_sum(logits: Tensor, tgt_out: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy against label-smoothed targets (Szegedy et al. 2016, section 7).

    logits (B, T, V), tgt_out (B, T) -> scalar: the sum over real tokens, in nats and fp32
    """
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        tgt_out.flatten(),
        reduction="sum",
        ignore_index=PAD_ID,
        label_smoothing=label_smoothing,
    )
