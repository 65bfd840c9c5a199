from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from onlinehash.demo.images import data_url


def test_an_image_has_the_pixels_that_it_was_made_of():
    pixels = np.linspace(-0.1, 1.1, 40).reshape(5, 8)
    kind, content = data_url(pixels).split(",")
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert kind == "data:image/png;base64"
    assert (image.format, image.size, image.mode) == ("PNG", (8, 5), "L")
    assert np.abs(np.asarray(image) / 255 - np.clip(pixels, 0, 1)).max() <= 0.5 / 255
