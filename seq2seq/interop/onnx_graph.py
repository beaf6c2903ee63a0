"""A graph of ONNX operators, written node by node; the names of values are numbers."""

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
from onnx import helper, numpy_helper
from torch import Tensor

OPSET = 20
IR_VERSION = 9
"""Old enough for any onnxruntime of the last years."""

Shape = Sequence[int | str]
"""A name stands for a size that may change from call to call."""


class Graph:
    """What a model computes: `op` adds a node and gives the name of its value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.weights: dict[int, tuple[Tensor, str]] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, tensor: Tensor) -> str:
        """A parameter; one that is used in several places is stored once."""
        if id(tensor) not in self.weights:
            name = self._constant(tensor.detach().float().cpu().numpy())
            self.weights[id(tensor)] = tensor, name  # kept, so that no other gets its id
        return self.weights[id(tensor)][1]

    def integers(self, *values: int) -> str:
        """A vector of them."""
        return self._constant(numpy.array(values, dtype=numpy.int64))

    def number(self, value: float) -> str:
        """A scalar."""
        return self._constant(numpy.array(value, dtype=numpy.float32))

    def integer(self, value: int) -> str:
        """A scalar."""
        return self._constant(numpy.array(value, dtype=numpy.int64))

    def _constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(numpy.asarray(values, order="C"), name)
        return name

    def model(
        self,
        inputs: dict[str, tuple[str, Shape]],
        outputs: dict[str, Shape],
        notes: dict[str, str],
    ) -> Any:
        """inputs: "int64" or "float" and the shape of each, by name; outputs, all float, are what
        `name` has named; notes are stored with it."""
        types = {"int64": onnx.TensorProto.INT64, "float": onnx.TensorProto.FLOAT}
        graph = helper.make_graph(
            self.nodes,
            "seq2seq",
            [
                helper.make_tensor_value_info(name, types[kind], shape)
                for name, (kind, shape) in inputs.items()
            ],
            [
                helper.make_tensor_value_info(name, types["float"], shape)
                for name, shape in outputs.items()
            ],
            list(self.constants.values()),
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="seq2seq-lightning",
        )
        helper.set_model_props(model, notes)
        onnx.checker.check_model(model)
        return model

    def name(self, value: str, name: str) -> None:
        """Call a value as an output is called."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
