"""Matching of cosines: a student learns how similar the rows of a batch are to a teacher."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .contract import LossOutput
from .contrast import require_temperature
from .gathering import ONE_PROCESS, Gather


@dataclass(frozen=True)
class CosineMatching:
    r"""Makes the cosines between the rows of a batch those of a teacher, whose vectors may be of another length.

    With :math:`s_{ij}` the cosine of rows :math:`i` and :math:`j` by the student, :math:`t_{ij}` that by the teacher
    and :math:`N` rows, without temperature (Tung and Mori 2019, eq. 4, with cosines):

    .. math::
        \ell = \frac{1}{N (N - 1)} \sum_{i \ne j} (s_{ij} - t_{ij})^2

    and with a temperature, which lets the nearest rows count most (Fang et al. 2021, eq. 3-5, less what the student
    cannot change):

    .. math::
        \ell = \frac{1}{N} \sum_i \sum_{j \ne i} p_{ij} \log \frac{p_{ij}}{q_{ij}}, \qquad
            p_{ij} = \frac{e^{t_{ij} / \tau}}{\sum_{k \ne i} e^{t_{ik} / \tau}}, \quad
            q_{ij} = \frac{e^{s_{ij} / \tau}}{\sum_{k \ne i} e^{s_{ik} / \tau}}

    Rows of all processes take part: every process compares its own rows with all. A single row has nothing to be
    compared with, and the loss 0. Everything is in fp32.

    Args:
        temperature: what cosines are divided by; None compares the cosines themselves.

    Raises:
        ValueError: the temperature is out of range.

    >>> teacher, student = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    >>> round(CosineMatching()(student, teacher).loss.item(), 3)
    0.36
    """

    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None:
            require_temperature(self.temperature)

    def __call__(self, student: Tensor, teacher: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's rows against those of all processes.

        Args:
            student: ``(rows, hidden)``, vectors that learn.
            teacher: ``(rows, teacher hidden)``, vectors of the same rows by the teacher.
            gather: how rows of other processes are seen.

        Returns:
            The loss, with the mean difference of cosines (``cosine_error``) and their ``correlation``.

        Raises:
            ValueError: shapes do not fit.
        """
        if student.dim() != 2 or teacher.dim() != 2 or len(student) != len(teacher):
            raise ValueError(f"student {tuple(student.shape)} and teacher {tuple(teacher.shape)} must be "
                             "(rows, hidden) and (rows, teacher hidden)")  # fmt: skip
        with torch.autocast(student.device.type, enabled=False):
            cosines, start = _cosines(student, gather)
            targets, _ = _cosines(teacher.detach(), gather)
            own, everything = cosines.shape
            places = torch.arange(own, device=student.device)
            others = torch.ones_like(cosines, dtype=torch.bool)
            others[places, places + start] = False
            # The mean over processes must be the mean over all rows, also where processes hold different numbers.
            pairs = gather.processes / max(everything * (everything - 1), 1)
            errors = (cosines - targets).masked_fill(~others, 0)
            loss = errors.square().sum() * pairs
            if self.temperature is not None:
                loss = _divergence(cosines / self.temperature, targets / self.temperature, others) * (
                    gather.processes / max(everything, 1)
                )
            metrics = {
                "cosine_error": errors.detach().abs().sum() * pairs,
                "correlation": _correlation(cosines.detach()[others], targets[others], gather),
            }
        return LossOutput(loss, metrics)


def _divergence(logits: Tensor, targets: Tensor, others: Tensor) -> Tensor:
    """Sum over this process's rows of the divergence of their neighbours."""
    if logits.shape[1] < 2:
        return logits.sum() * 0
    # A finite number: the product of no probability and an infinite logarithm is no number.
    least = torch.finfo(logits.dtype).min / 2
    found, wanted = (one.masked_fill(~others, least).log_softmax(dim=1) for one in (logits, targets))
    return (wanted.exp() * (wanted - found)).masked_fill(~others, 0).sum()


def _cosines(vectors: Tensor, gather: Gather) -> tuple[Tensor, int]:
    """Cosines of this process's rows to those of all, ``(rows, all rows)``, and the place of the first of them."""
    unit = functional.normalize(vectors.float(), dim=-1)
    everything, start = gather.rows(unit)
    return unit @ everything.T, start


def _correlation(first: Tensor, second: Tensor, gather: Gather) -> Tensor:
    """Correlation of the numbers of all processes, 0 where one of both does not vary."""
    first, second = first.double(), second.double()
    ones = torch.ones_like(first)
    products = (ones, first, second, first * first, second * second, first * second)
    sums = gather.rows(torch.stack([one.sum() for one in products]).unsqueeze(0))[0].sum(dim=0)
    count, a, b, aa, bb, ab = sums.unbind()
    count = count.clamp(min=1)
    spread = ((aa - a * a / count) * (bb - b * b / count)).clamp(min=0).sqrt()
    return torch.where(spread > 1e-12, (ab - a * b / count) / spread.clamp(min=1e-12), 0.0).float()
