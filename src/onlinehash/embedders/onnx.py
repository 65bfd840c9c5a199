"""``onnx:PATH``: images through a network in an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.embedders.images import MEAN, STD, image_array, pooled
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, needs_extra

_SIZE = 224  # where the file leaves it open


def make(model: str) -> OnnxImages:
    """Return the network of a file."""
    if not model:
        raise InvalidInputError("Name the file: 'onnx:model.onnx'.")
    return OnnxImages(model)


class OnnxImages:
    """Embed images with the first output of a network in an ONNX file, averaged over places.

    Images are scaled and cropped to the input of the network, and normalised.

    Parameters
    ----------
    path : path
        A network with one input of shape (n, 3, height, width) or (n, height, width, 3), in single precision.
    mean, std : tuples of 3 floats
        Of the colours, from 0 to 1; those of ImageNet by default.
    """

    takes = "image"

    def __init__(
        self, path: str | os.PathLike[str], mean: tuple[float, ...] = MEAN, std: tuple[float, ...] = STD
    ) -> None:
        with needs_extra("onnxruntime", "onnx"):
            import onnxruntime
        if not Path(path).is_file():
            raise DataNotFoundError(f"There is no file {path}.")
        self.name = f"onnx:{path}"
        self._mean, self._std = mean, std
        try:
            self._session = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise FileFormatError(f"{path} cannot be read by onnxruntime: {error}") from error
        self._input, *others = self._session.get_inputs()
        shape = self._input.shape
        if others or len(shape) != 4 or 3 not in (shape[1], shape[3]):
            raise FileFormatError(f"{path} takes {[one.shape for one in [self._input, *others]]}, not RGB images.")
        self._last = shape[1] != 3  # colours come last
        self._size = next((side for side in (shape[1:3] if self._last else shape[2:]) if isinstance(side, int)), _SIZE)
        self._one_by_one = shape[0] == 1

    def __call__(self, images: list[Any]) -> NDArray[np.float32]:
        """Return the vectors of images."""
        rows = np.stack([image_array(image, self._size, self._mean, self._std) for image in images])
        if self._last:
            rows = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        batches = rows[:, np.newaxis] if self._one_by_one else [rows]
        outputs = np.concatenate([self._session.run(None, {self._input.name: batch})[0] for batch in batches])
        return pooled(outputs.transpose(0, 3, 1, 2) if self._last and outputs.ndim == 4 else outputs)
