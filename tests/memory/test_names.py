"""Names: known things get theirs, others are unknown, and the fit equals a second, slower way to compute it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Key, Memory, Names, open_store
from devmind.memory.likeness import Likeness
from devmind.memory.names import LONE_THRESHOLD, Fitted
from devmind.moment import Moment

SIZE = 40


def things(n_names: int, each: int, seed: int = 0, spread: float = 0.5) -> tuple[np.ndarray, list[str]]:
    """Features of `each` things round every name's own centre."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(n_names, SIZE))
    features = centres.repeat(each, 0) + spread * rng.normal(size=(n_names * each, SIZE)) / np.sqrt(SIZE) * 2
    return features.astype(np.float32), [f"name {number // each}" for number in range(n_names * each)]


def test_known_things_get_their_names_and_others_are_unknown() -> None:
    features, names = things(9, 4)
    taught = [row for row in range(len(names)) if names[row] < "name 6"]
    fitted = Fitted(features[taught], [names[row] for row in taught])
    asked, wanted = things(9, 20, seed=1)
    answers = [fitted.ask(row) for row in asked]
    known = np.array([name < "name 6" for name in wanted])
    right = np.array([answer.name == name for answer, name in zip(answers, wanted, strict=True)])
    unknown = np.array([answer.name is None for answer in answers])
    assert right[known].mean() > 0.9
    assert unknown[~known].mean() > 0.9
    confidence = np.array([answer.confidence for answer in answers])
    assert ((confidence >= 0.5) | unknown).all()
    assert ((confidence <= 0.5) | ~unknown).all()


def test_likeness_equals_the_covariance_written_out() -> None:
    features, names = things(4, 3)
    asked, _ = things(4, 2, seed=5)
    x, z, labels = features.astype(float), asked.astype(float), np.array(names)
    residual = x - np.stack([x[labels == name].mean(0) for name in names])
    mean_variance = np.square(residual).sum() / len(x) / SIZE
    covariance = 0.5 * residual.T @ residual / len(x) + 0.5 * mean_variance * np.eye(SIZE)
    inner = lambda a, b: a @ np.linalg.inv(covariance) @ b.T  # noqa: E731
    wanted = inner(z, x) / np.sqrt(np.outer(inner(z, z).diagonal(), inner(x, x).diagonal()))
    np.testing.assert_allclose(Likeness(features, labels).of(asked), wanted, atol=1e-9)


def test_leaving_out_equals_fitting_without() -> None:
    features, names = things(3, 3)
    labels, place = np.array(names), np.tile(np.arange(3), 3)
    known, unknown = Likeness(features, labels).left_out()
    again = [Likeness(features[place != out], labels[place != out]).of(features[place == out]) for out in range(3)]
    np.testing.assert_allclose(known, np.concatenate([cosines.max(1) for cosines in again]), atol=1e-9)
    rest = [labels[place != out] for out in range(3)]
    others = [
        cosines[row][names_left != labels[place == out][row]].max()
        for out, (cosines, names_left) in enumerate(zip(again, rest, strict=True))
        for row in range(3)
    ]
    np.testing.assert_allclose(unknown, others, atol=1e-9)


def test_one_example_is_enough_to_begin_with() -> None:
    features, _ = things(2, 1)
    fitted = Fitted(features[:1], ["cup"])
    assert fitted.threshold == LONE_THRESHOLD
    assert fitted.ask(features[0]).name == "cup"
    assert fitted.ask(features[1]).name is None
    assert fitted.ask(features[1]).nearest == "cup"
    assert fitted.ask(features[0]).confidence == 0.5
    several = Fitted(things(1, 4)[0], ["cup"] * 4)
    assert several.ask(things(1, 1, seed=3)[0][0]).name == "cup"
    two = Fitted(features, ["cup", "ball"])
    assert [two.ask(row).name for row in features] == ["cup", "ball"]
    assert two.ask(-features[0]).name is None


def test_equal_examples_do_no_harm() -> None:
    features, _ = things(2, 1)
    fitted = Fitted(features[[0, 0, 0, 1, 1]], ["cup", "cup", "ball", "ball", "ball"])
    assert np.isfinite(fitted.threshold)
    assert fitted.ask(features[1]).name == "ball"
    silent = Fitted(np.zeros((3, SIZE), dtype=np.float32), ["a", "a", "b"])
    assert np.isfinite(silent.ask(features[0]).likeness)


def key(features: np.ndarray, encoder: str = "a") -> Key:
    vector = np.zeros(64, dtype=np.float32)
    vector[0] = 1
    return Key(vector, encoder, features)


def teach(memory: Memory, features: np.ndarray, name: str) -> None:
    memory.write(Moment(0.0, {"words": name}), {"sight": key(features)}, name=name)


def test_names_are_refitted_forgotten_and_survive_a_restart(tmp_path: Path) -> None:
    features, names = things(3, 3)
    with open_store(tmp_path) as store:
        book = Names(Memory(store))
        assert book.ask({"sight": key(features[0])}) == {}
        for row, name in zip(features, names, strict=True):
            teach(book.memory, row, name)
        before = book.ask({"sight": key(features[0]), "sound": key(features[0])})
        assert before.keys() == {"sight"}
        assert before["sight"].name == "name 0"
    with open_store(tmp_path) as store:
        book = Names(Memory(store))
        assert book.known() == {"name 0": 3, "name 1": 3, "name 2": 3}
        assert book.ask({"sight": key(features[0])}) == before
        with open_store(tmp_path) as other:  # another process teaches, and this one knows
            teach(Memory(other), -10 * features[0], "antipode")
        assert book.ask({"sight": key(-9 * features[0])})["sight"].name == "antipode"
        assert book.forget("name 0") == 3
        assert book.ask({"sight": key(features[0])})["sight"].nearest != "name 0"
        with pytest.raises(StoreError, match="No name 'name 0' was taught; did you mean 'name"):
            book.forget("name 0")


def test_an_answer_of_another_encoder_is_refused() -> None:
    book = Names(Memory(open_store(None)))
    features, _ = things(1, 1)
    teach(book.memory, features[0], "cup")
    with pytest.raises(StoreError, match="described by another encoder"):
        book.ask({"sight": key(features[0], "b")})
