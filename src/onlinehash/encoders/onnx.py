"""An encoder as an ONNX graph, which other programs and languages run without this library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from onlinehash.codes import code_width
from onlinehash.encoders.device import SURE_MARGIN, order_of_equal
from onlinehash.encoders.shortlist import N_LISTED, Shortlist
from onlinehash.exceptions import needs_extra
from onlinehash.features import Anchors, Centring, FeatureMap, Fourier, Identity

_OPSET = 17
_IR_VERSION = 8  # that of the operator set: older runtimes read it
_TO_THE_END = np.iinfo(np.int64).max


class OnnxGraph:
    """Collect nodes and constants of a graph that computes in a dtype; every method returns the name of its result."""

    def __init__(self, dtype: Any) -> None:
        with needs_extra("onnx", "onnx"):
            import onnx
        self._onnx = onnx
        self.dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    # ------------------------------------------------------------------ nodes

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def array(self, values: Any, dtype: Any = None) -> str:
        """Add a constant, in the precision of the computation unless another is given."""
        name = f"constant_{len(self._constants)}"
        array = np.ascontiguousarray(values, self.dtype if dtype is None else dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, x: str, dtype: Any) -> str:
        """Add a cast and return the name of its output."""
        return self.node("Cast", x, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.array(shape, np.int64))

    def _sum(self, x: str) -> str:
        return self.node("ReduceSum", x, self.array([1], np.int64), keepdims=1)

    def _columns(self, x: str, first: int, last: int = _TO_THE_END) -> str:
        return self.node("Slice", x, *(self.array([place], np.int64) for place in (first, last, 1)))

    # ------------------------------------------------------------------ feature maps

    def features(self, kind: FeatureMap, x: str) -> str:
        """Map rows as a feature map does."""
        if isinstance(kind, Identity):
            return self.cast(x, self.dtype)
        if isinstance(kind, Centring):
            return self._centred(kind.mean, x)
        rows = self.features(kind.inner, x)
        if isinstance(kind, Anchors):
            return self._similarities(kind, rows)
        angles = self.node("Add", self._rotated(kind, rows), self.array(kind.phases))
        cosines = self.node("Mul", self.node("Cos", angles), self.array(kind.scale))
        return self.node("Concat", rows, cosines, axis=1)

    def _centred(self, mean: NDArray[Any], x: str) -> str:
        """Subtract the mean and scale to unit length, in double precision as everywhere; a row of zeros stays."""
        rows = self.node("Sub", self.cast(x, np.float64), self.array(mean, np.float64))
        length = self.node("Sqrt", self._sum(self.node("Mul", rows, rows)))
        is_zero = self.node("Equal", length, self.array(0.0, np.float64))
        length = self.node("Where", is_zero, self.array(1.0, np.float64), length)
        return self.cast(self.node("Div", rows, length), self.dtype)

    def _similarities(self, kind: Anchors, rows: str) -> str:
        anchors = kind.anchors.astype(self.dtype)
        lengths = self.node("Add", self._sum(self.node("Mul", rows, rows)), self.array(np.square(anchors).sum(axis=1)))
        products = self.node("MatMul", rows, self.array(-2.0 * anchors.T))
        squares = self.node("Max", self.node("Add", lengths, products), self.array(0.0))
        similar = self.node("Exp", self.node("Div", squares, self.array(-kind.width)))
        if not kind.constant:
            return similar
        return self.node("Pad", similar, self.array([0, 0, 0, 1], np.int64), self.array(1.0))

    def _rotated(self, kind: Fourier, rows: str) -> str:
        """Multiply by signs and Hadamard matrices; one of order p is the Kronecker product of two small ones."""
        n_blocks, _, order = kind.signs.shape
        left = 1 << (order.bit_length() - 1) // 2
        small = [self.array(hadamard(size)) for size in (left, order // left)]
        scale = np.sqrt(order / kind.bandwidth) / order**1.5
        scaled = self.node("Mul", rows, self.array(scale))
        padded = self.node("Pad", scaled, self.array([0, 0, 0, order - kind.n_inputs], np.int64), self.array(0.0))
        x = self._reshape(padded, -1, 1, order)
        for turn in range(3):
            x = self.node("Mul", x, self.array(kind.signs[:, turn]))
            x = self._reshape(x, -1, n_blocks, left, order // left)
            x = self.node("MatMul", small[0], self.node("MatMul", x, small[1]))
            x = self._reshape(x, -1, n_blocks, order)
        return self._columns(self._reshape(x, -1, n_blocks * order), 0, len(kind.phases))

    # ------------------------------------------------------------------ codes

    def combined(self, values: str, codewords: NDArray[Any], sharpness: float) -> str:
        """Combine codewords by sharpened scores, as :class:`Encoder` does; other values follow."""
        scores, others = self._columns(values, 0, len(codewords)), self._columns(values, len(codewords))
        if not sharpness:
            return self.node("Concat", self.node("MatMul", scores, self.array(codewords)), others, axis=1)
        exponents = self.node("Mul", self.node("Div", scores, self._largest(scores)), self.array(sharpness))
        sums = self.node("MatMul", self.node("Exp", exponents), self.array(codewords))
        offset = self.array(codewords.sum(axis=0, dtype=np.float64))
        bits = self.node("Div", self.node("Sub", sums, offset), self.array(np.expm1(sharpness)))
        return self.node("Concat", bits, others, axis=1)

    def doubted(self, values: str, scores: str, shape: tuple[int, int], confidence_bits: int) -> str:
        """Change the signs of values where the class of a row is not sure, as :class:`Encoder` does."""
        n_classes, n_bits = shape
        n_inverted = min(confidence_bits, n_bits)
        scores = self._columns(scores, 0, n_classes)
        highest = self._highest(scores, 2)
        margins = self.node("Sub", self._columns(highest, 0, 1), self._columns(highest, 1, 2))
        margins = self.node("Div", margins, self._largest(scores))
        bits, others = self._columns(values, 0, n_bits), self._columns(values, n_bits)
        sizes = self.node("Add", self.node("Abs", bits), self.array(order_of_equal(n_bits)))
        smallest = self._highest(self.node("Neg", sizes), n_inverted)
        for place in range(n_inverted):
            size = self.node("Neg", self._columns(smallest, place, place + 1))
            limit = self.array(SURE_MARGIN * (n_inverted - place) / n_inverted)
            factor = self.node("Sub", self.node("Div", margins, limit), self.array(1.0))
            factor = self.node("Min", factor, self.array(1.0))
            bits = self.node("Where", self.node("Equal", sizes, size), self.node("Mul", bits, factor), bits)
        return self.node("Concat", bits, others, axis=1)

    def _largest(self, scores: str) -> str:
        """Return the largest size of the scores of every row, or 1 where that is 0."""
        largest = self.node("ReduceMax", self.node("Abs", scores), axes=[1], keepdims=1)
        return self.node("Where", self.node("Equal", largest, self.array(0.0)), self.array(1.0), largest)

    def listed(self, values: str, rows: str, shortlist: Shortlist) -> str:
        """Set the scores of the classes to 0 that are not on the shortlist of a row of features."""
        estimates = self.node("MatMul", rows, self.array(shortlist.weights))
        estimates = self.node("Add", estimates, self.array(shortlist.intercept))
        estimates = self.node("MatMul", estimates, self.array(shortlist.signs.T))
        least = self.node("ReduceMin", self._highest(estimates, N_LISTED), axes=[1], keepdims=1)
        n_classes = len(shortlist.codes)
        scores, others = self._columns(values, 0, n_classes), self._columns(values, n_classes)
        scores = self.node("Where", self.node("GreaterOrEqual", estimates, least), scores, self.array(0.0))
        return self.node("Concat", scores, others, axis=1)

    def _highest(self, x: str, n: int) -> str:
        name = f"highest_{len(self._nodes)}"
        inputs, outputs = [x, self.array([n], np.int64)], [name, f"{name}_places"]
        self._nodes.append(self._onnx.helper.make_node("TopK", inputs, outputs, axis=1))
        return name

    def packed(self, values: str, n_bits: int) -> str:
        """Pack the signs of values, eight to a byte, the first in the lowest bit."""
        width = code_width(n_bits)
        bits = self.cast(self.node("GreaterOrEqual", values, self.array(0.0)), np.float32)
        padding = self.array([0, 0, 0, 8 * width - n_bits], np.int64)
        padded = self._reshape(self.node("Pad", bits, padding), -1, width, 8)
        codes = self.node("MatMul", padded, self.array(1 << np.arange(8), np.float32))
        return self.cast(codes, np.uint8)

    def model(self, n_features: int, n_bits: int, values: str, codes: str, about: dict[str, str]) -> bytes:
        """Return the file: input ``vectors``, outputs ``codes`` and ``values``."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        outputs = (("codes", codes, kinds.UINT8, code_width(n_bits)), ("values", values, kinds.FLOAT, n_bits))
        nodes = [*self._nodes]
        nodes += [helper.make_node("Cast", [x], [name], to=kind) for name, x, kind, _ in outputs]
        graph = helper.make_graph(
            nodes,
            "onlinehash",
            [helper.make_tensor_value_info("vectors", kinds.FLOAT, ["n", n_features])],
            [helper.make_tensor_value_info(name, kind, ["n", width]) for name, _, kind, width in outputs],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="onlinehash",
        )
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
