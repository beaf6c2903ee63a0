"""BLEU of a corpus that is scored in parts: over batches, and over the processes of a training.

BLEU is a function of a few counts that add up over sentences. Adding them as integers gives the
same bits as scoring the whole corpus at once, however it was cut. chrF and TER do not add up
like this here: gather the strings and use metrics.py. The only file of evaluation with torch.
"""

from collections.abc import Sequence
from itertools import zip_longest

import torch
import torchmetrics
from torch import Tensor

from seq2seq.evaluation.metrics import new_bleu


class CorpusBLEU(torchmetrics.Metric):
    """sacreBLEU's corpus BLEU, exactly, as a torchmetrics.Metric.

    update: hypotheses, and for each hypothesis the list of its references; a part may be empty
    compute: the score from 0 to 100, a float64 scalar; 0 when nothing was seen
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    counts: Tensor
    """Per n-gram order, the n-grams of the hypotheses that are also in a reference."""
    totals: Tensor
    """Per n-gram order, all n-grams of the hypotheses."""
    lengths: Tensor
    """Tokens of the hypotheses and of the references nearest to them in length."""
    fewest_references: Tensor
    most_references: Tensor

    def __init__(self, target_lang: str = "") -> None:
        super().__init__()
        self.bleu = new_bleu(target_lang)
        for name, size in (("counts", 4), ("totals", 4), ("lengths", 2)):
            self.add_state(name, torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")
        most = torch.iinfo(torch.int64).max
        self.add_state("fewest_references", torch.tensor(most), dist_reduce_fx="min")
        self.add_state("most_references", torch.tensor(0), dist_reduce_fx="max")

    def update(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} hypotheses, {len(references)} lists of references")
        if not hypotheses:
            return
        if not all(references):
            raise ValueError("a hypothesis has no reference")
        # sacreBLEU wants whole reference sets, None where a sentence has no further reference.
        part = self.bleu.corpus_score(hypotheses, list(zip_longest(*references)))
        self.counts += torch.tensor(part.counts, device=self.device)
        self.totals += torch.tensor(part.totals, device=self.device)
        self.lengths += torch.tensor([part.sys_len, part.ref_len], device=self.device)
        sizes = torch.tensor([len(each) for each in references], device=self.device)
        self.fewest_references = torch.minimum(self.fewest_references, sizes.min())
        self.most_references = torch.maximum(self.most_references, sizes.max())

    def compute(self) -> Tensor:
        sys_len, ref_len = self.lengths.tolist()
        score = self.bleu.compute_bleu(
            correct=self.counts.tolist(),
            total=self.totals.tolist(),
            sys_len=sys_len,
            ref_len=ref_len,
            smooth_method=self.bleu.smooth_method,
        )
        return torch.tensor(score.score, dtype=torch.float64)

    @property
    def update_called(self) -> bool:
        """Always true: here an unseen corpus has the score 0, which needs no warning."""
        return True

    @property
    def signature(self) -> str:
        """sacreBLEU's, for what this process has seen; one reference as long as that is nothing."""
        fewest, most = int(self.fewest_references), int(self.most_references) or 1
        # -1 is sacreBLEU's way to say that the number varies.
        self.bleu.num_refs = most if fewest >= most else -1
        return self.bleu.get_signature().format()
