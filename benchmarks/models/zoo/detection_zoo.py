"""A detector for the zoo: a convolutional head over images of any size, scores, boxes, non-max suppression, and the best that are left."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.exported import Exported
from benchmarks.models.zoo.vision_zoo import normed


@torch.library.custom_op("zoo::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor, limit: int, overlap: float, least: float) -> Tensor:
    """Computes what ONNX's NonMaxSuppression does, by its definition: [kept, 3] of batch, class and box."""
    boxes_kept = []
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            kept: list[int] = []
            for k in torch.argsort(scores[b, c], descending=True, stable=True).tolist():
                if (
                    len(kept) < limit
                    and scores[b, c, k] > least
                    and all(_iou(boxes[b, k], boxes[b, j]) <= overlap for j in kept)
                ):
                    kept.append(k)
            boxes_kept += [[b, c, k] for k in kept]
    return torch.tensor(boxes_kept, dtype=torch.int64).reshape(-1, 3)


def _iou(a: Tensor, b: Tensor) -> float:
    both = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
    return float(both / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - both))


def nms_node(g: Any, boxes: Any, scores: Any, limit: Any, overlap: Any, least: Any) -> Any:
    """Emits the node as the exporter writes it."""
    vector = g.op("Constant", value_t=torch.tensor([1]))
    limits = g.op("Reshape", limit, vector)
    thresholds = [g.op("Cast", g.op("Reshape", t, vector), to_i=1) for t in (overlap, least)]
    return g.op("NonMaxSuppression", boxes, scores, limits, *thresholds)


class Detector(nn.Module):
    """A detector of one box and three classes for each cell of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*normed(3, 8, 3, 2), nn.ReLU(), *normed(8, 16, 3, 2), nn.ReLU(), *normed(16, 16, 3, 2), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Conv2d(16, 7, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        cells = self.head(self.body(x)).flatten(2)
        centres, sizes = torch.sigmoid(cells[:, :2]), 0.1 + 0.3 * torch.sigmoid(cells[:, 2:4])
        boxes = torch.cat([centres - sizes / 2, centres + sizes / 2], 1).transpose(1, 2)
        scores = torch.softmax(cells[:, 4:], 1)
        kept = torch.ops.zoo.nms(boxes, scores, 5, 0.5, 0.2)
        picked = scores[kept[:, 0], kept[:, 1], kept[:, 2]]
        best, order = picked.topk(
            picked.shape[0].clamp(max=10) if isinstance(picked.shape[0], Tensor) else min(10, picked.shape[0])
        )
        return kept[order], best, boxes[kept[order, 0], kept[order, 2]]


def detector() -> Exported:
    torch.onnx.register_custom_op_symbolic("zoo::nms", nms_node, 17)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}, **{name: {0: "kept"} for name in ("kept", "scores", "boxes")}}
    return Exported(Detector(), (torch.randn(2, 3, 64, 64),), ["x"], ["kept", "scores", "boxes"], axes)
