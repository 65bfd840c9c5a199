"""What embeds documents: names, callables, transformers and models; what comes out is checked."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from onlinehash.embedders import (
    Embedder,
    as_embedder,
    is_document,
    make_embedder,
)
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    MissingExtraError,
    UnknownNameError,
)

TEXTS = ["where is my card", "my card is lost", "what is the weather", "will it rain"]


def lengths(texts):
    return [[len(text), 1] for text in texts]


class Model:
    """Has the methods of a model of sentence-transformers that matter here."""

    def encode(self, texts):
        return np.array(lengths(texts), np.float64)

    def __call__(self, tensors):
        raise AssertionError("not for documents")


def test_char_ngrams_are_deterministic_and_know_spelling_only():
    one, two, other, _ = make_embedder("char_ngrams")(TEXTS)
    assert np.array_equal(make_embedder("char_ngrams")(TEXTS[:1])[0], one)
    assert one.shape == (1024,) and one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1)
    assert one @ two > one @ other
    assert make_embedder("char_ngrams:64")(TEXTS).shape == (4, 64)
    with pytest.raises(InvalidInputError, match=r"char_ngrams:wide"):
        make_embedder("char_ngrams:wide")
    with pytest.raises(InvalidInputError, match="embeds text, not bytes"):
        make_embedder("char_ngrams")([b"x"])


def test_functions_transformers_and_models_embed():
    transformer = make_pipeline(TfidfVectorizer(), TruncatedSVD(2, random_state=0)).fit(TEXTS)
    for given, name in ((lengths, "lengths"), (Model(), "Model"), (Embedder("mine", lengths), "mine")):
        embedder = as_embedder(given)
        assert embedder.name == name
        assert embedder(TEXTS).tolist() == lengths(TEXTS)
    embedder = as_embedder(transformer)
    assert embedder.name.startswith("Pipeline(steps=") and "\n" not in embedder.name
    assert embedder(TEXTS).shape == (4, 2)
    assert as_embedder(TfidfVectorizer().fit(TEXTS))(TEXTS).shape[0] == 4  # sparse


def test_what_is_no_embedder_is_refused():
    with pytest.raises(InvalidInputError, match="a lambda, which has no name"):
        as_embedder(lambda texts: [[len(text)] for text in texts])
    with pytest.raises(InvalidInputError, match="class Model"):
        as_embedder(Model)
    with pytest.raises(InvalidInputError, match="is not an embedder"):
        as_embedder(3)
    with pytest.raises(InvalidInputError, match="no name"):
        Embedder("", lengths)
    with pytest.raises(InvalidInputError, match="cannot be called"):
        Embedder("x", 3)
    with pytest.raises(UnknownNameError, match="Did you mean 'char_ngrams'"):
        make_embedder("char_ngram")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda texts: lengths(texts)[:1], "one row per document"),
        (lambda texts: [1.0] * len(texts), "one row per document"),
        (lambda texts: [[float("nan")]] * len(texts), "NaN"),
        (lambda texts: [["a"]] * len(texts), "not numbers"),
    ],
)
def test_vectors_that_are_none_are_refused(wrong, error):
    with pytest.raises(InvalidFeaturesError, match=error):
        Embedder("wrong", wrong)(TEXTS)


@pytest.mark.parametrize("kind", ["fastembed", "onnx", "sentence-transformers"])
def test_a_kind_needs_a_model_and_its_extra(kind):
    with pytest.raises(InvalidInputError, match="Name the"):
        make_embedder(kind)
    module = {"onnx": "onnxruntime"}.get(kind, kind.replace("-", "_"))
    if find_spec(module) is None:
        with pytest.raises(MissingExtraError, match=rf"\.\[{kind}\]"):
            make_embedder(f"{kind}:model")


def test_documents_are_told_from_numbers():
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    assert all(map(is_document, ["text", b"bytes", image]))
    assert not any(map(is_document, [3, 0.5, [0.5], np.zeros(3), None]))


# ---------------------------------------------------------------------- images


@pytest.fixture
def colours(tmp_path):
    """An ONNX network that gives the mean colour of an image of 8 by 8 pixels, in one file."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["images"], ["out"])],
        "colours",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3, 8, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "colours.onnx")
    return tmp_path / "colours.onnx"


def test_an_onnx_network_embeds_images_of_any_kind(colours, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    red = Image.new("RGB", (30, 20), (255, 0, 0))
    red.save(tmp_path / "red.png")
    embedder = make_embedder(f"onnx:{colours}")
    given = [red, str(tmp_path / "red.png"), tmp_path / "red.png", (tmp_path / "red.png").read_bytes(), np.asarray(red)]
    rows = embedder(given)
    assert rows.shape == (5, 3)
    assert np.allclose(rows, rows[0], atol=1e-5)
    assert np.allclose(rows[0], [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225], atol=1e-3)


def test_what_is_no_image_or_network_is_refused(colours, tmp_path):
    embedder = make_embedder(f"onnx:{colours}")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(DataNotFoundError, match=r"no image 'missing\.png'"):
        embedder(["missing.png"])
    with pytest.raises(FileFormatError, match=r"text\.png"):
        embedder([str(tmp_path / "text.png")])
    with pytest.raises(InvalidInputError, match="int is no image"):
        embedder([3])
    with pytest.raises(DataNotFoundError, match="no file"):
        make_embedder("onnx:missing.onnx")
    (tmp_path / "bad.onnx").write_text("no network")
    with pytest.raises(FileFormatError, match=r"bad\.onnx"):
        make_embedder(f"onnx:{tmp_path / 'bad.onnx'}")
