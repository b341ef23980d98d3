"""Names: known things get their names, others are unknown, and a confidence is the share of right answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Entry, Key, Memory, Named, Names, Strangers, open_store
from devmind.memory.confidence import NAMED_FROM
from devmind.memory.names import Fitted, Row
from devmind.memory.similarity import SHARES_WEIGHT, Likeness, unit
from devmind.moment import Moment
from devmind.testing.laws import ATOL

SIZE = 40


def things(
    n_names: int, each: int, seed: int = 0, spread: float = 0.5, centres: int = 99
) -> tuple[np.ndarray, list[str]]:
    """Features of `each` things around every name's own centre."""
    rng = np.random.default_rng(seed)
    middles = np.random.default_rng(centres).normal(size=(n_names, SIZE))
    features = middles.repeat(each, 0) + spread * rng.normal(size=(n_names * each, SIZE)) / np.sqrt(SIZE) * 2
    return features.astype(np.float32), [f"name {number // each}" for number in range(n_names * each)]


def strangers(kinds: int = 40, each: int = 3) -> Strangers:
    """Things around centres of their own, which no name has."""
    features, _ = things(kinds, each, seed=7, centres=1234)
    return Strangers(features, np.arange(kinds).repeat(each))


def asked_often(
    spread: float, n_names: int = 4, shots: int = 2, episodes: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences [q], whether the nearest name is right, and whether the thing has a name, as half of them have."""
    confidence, right, known = [], [], []
    for episode in range(episodes):
        taught, names = things(n_names, shots, seed=episode, spread=spread, centres=500 + episode)
        fitted = Fitted(taught, names, strangers=strangers())
        shown, wanted = things(2 * n_names, 5, seed=9_000 + episode, spread=spread, centres=500 + episode)
        places, _, sure = fitted.answers(shown)
        confidence.append(sure)
        right.append(fitted.names[places] == np.array(wanted))
        known.append(np.arange(len(shown)) < n_names * 5)
    return np.concatenate(confidence), np.concatenate(right), np.concatenate(known)


@pytest.mark.parametrize("spread", [0.3, 1.0, 1.6])
def test_confidence_equals_the_share_of_right_answers(spread: float) -> None:
    confidence, right, known = asked_often(spread)
    assert abs(confidence.mean() - right.mean()) < 0.1
    bins = np.minimum((confidence * 10).astype(int), 9)
    error = sum(abs((confidence - right)[bins == at].sum()) for at in range(10)) / len(right)
    assert error < 0.15, f"calibration error {error:.3f}"
    assert confidence[right].mean() > confidence[~right].mean() + 0.2
    assert (confidence[~known] >= NAMED_FROM).mean() < 0.25


def test_known_things_get_their_names_and_others_are_unknown() -> None:
    features, names = things(9, 4)
    taught = [row for row in range(len(names)) if names[row] < "name 6"]
    fitted = Fitted(features[taught], [names[row] for row in taught], strangers=strangers())
    asked, wanted = things(9, 20, seed=1)
    answers = [fitted.ask(row) for row in asked]
    known = np.array([name < "name 6" for name in wanted])
    right = np.array([answer.name == name for answer, name in zip(answers, wanted, strict=True)])
    unknown = np.array([answer.name is None for answer in answers])
    assert right[known].mean() > 0.9
    assert unknown[~known].mean() > 0.9
    assert all((answer.name is not None) == (answer.confidence >= NAMED_FROM) for answer in answers)


def test_strangers_are_unknown_and_one_example_teaches_a_name() -> None:
    features, _ = things(2, 1, spread=0.2)
    again, _ = things(2, 1, seed=1, spread=0.2)
    alien = strangers()
    for strange in (alien, None):
        fitted = Fitted(features[:1], ["cup"], strangers=strange)
        assert fitted.ask(again[0]).name == "cup"
        assert fitted.ask(again[1]).name is None
        assert fitted.ask(again[1]).nearest == "cup"
    two = Fitted(features, ["cup", "ball"], strangers=alien)
    assert [two.ask(row).name for row in again] == ["cup", "ball"]
    assert two.ask(-features[0]).name is None
    named = [two.ask(row).name for row in alien.features]
    assert named.count(None) > 0.95 * len(named)


def test_likeness_equals_a_direct_covariance_computation() -> None:
    alien, (features, _) = strangers(5, 4), things(4, 2, seed=5)
    x = alien.features.astype(float)
    variance = x.var(0)
    scale = np.sqrt(variance + 1e-3 * variance.mean())
    z, kinds = (x - x.mean(0)) / scale, np.arange(5).repeat(4)
    means = np.stack([z[kinds == kind].mean(0) for kind in range(5)])
    residual = z - means[kinds]
    within = residual.T @ residual / (len(z) - 5)
    within = 0.6 * within + 0.4 * np.trace(within) / SIZE * np.eye(SIZE)
    between = np.cov(means.T, bias=True)
    between = 0.95 * between * SIZE / np.trace(between) + 0.05 * np.eye(SIZE)
    values, axes = np.linalg.eigh(within)
    whitener = axes / np.sqrt(values)
    ratio, turned = np.linalg.eigh(whitener.T @ between @ whitener)
    asked = (features - x.mean(0)) / scale @ whitener @ turned * np.sqrt(ratio / (1 + ratio))
    inner = asked @ asked.T
    wanted = inner / np.sqrt(np.outer(inner.diagonal(), inner.diagonal()))
    rows = Likeness(SIZE, alien).rows(features)
    np.testing.assert_allclose(rows @ rows.T, wanted, atol=1e-9)
    plain = Likeness(SIZE).rows(features)
    np.testing.assert_allclose(plain, features / np.linalg.norm(features, axis=1, keepdims=True), atol=ATOL)


def test_crops_of_one_press_count_as_one_example() -> None:
    features, names = things(3, 2, spread=0.8)
    rng = np.random.default_rng(3)
    crops = features.repeat(20, 0) + 0.02 * rng.normal(size=(120, SIZE)).astype(np.float32)
    labels, groups = np.array(names).repeat(20).tolist(), np.arange(6).repeat(20)
    alone = Fitted(features, names, strangers=strangers())
    pressed = Fitted(crops, labels, groups=groups, strangers=strangers())
    blind = Fitted(crops, labels, strangers=strangers())
    asked, _ = things(6, 5, seed=4, spread=0.8)
    sure = [fitted.answers(asked)[2] for fitted in (alone, pressed, blind)]
    np.testing.assert_allclose(sure[1], sure[0], atol=0.05)
    assert abs(sure[2] - sure[0]).mean() > 3 * abs(sure[1] - sure[0]).mean(), "crops taken for independent examples"


def test_a_thing_shown_without_a_name_is_unknown() -> None:
    scene, thing = things(2, 1, spread=0.0)[0]
    rng = np.random.default_rng(5)
    shown = (scene + thing * np.float32(0.5))[None].repeat(3, 0) + 0.05 * rng.normal(size=(3, SIZE))
    empty = scene[None].repeat(3, 0) + 0.05 * rng.normal(size=(3, SIZE))
    rows = np.concatenate([shown, empty]).astype(np.float32)
    without = Fitted(rows[:3], ["cup"] * 3, groups=[1, 1, 1], strangers=strangers())
    assert without.ask(scene).name == "cup", "much of what was taught is the scene"
    fitted = Fitted(rows, ["cup"] * 3 + [None] * 3, groups=[1, 1, 1, 2, 2, 2], strangers=strangers(), pressed=["cup"])
    assert fitted.ask(scene).name is None
    assert fitted.ask(scene).nearest == "cup"
    assert fitted.ask(scene + thing * np.float32(0.5)).name == "cup"
    assert fitted.names.tolist() == ["cup"]


def test_duplicate_examples_do_no_harm() -> None:
    features, _ = things(2, 1, spread=0.3)
    again, _ = things(2, 1, seed=1, spread=0.3)
    fitted = Fitted(features[[0, 0, 0, 1, 1]], ["cup", "cup", "ball", "ball", "ball"], strangers=strangers())
    assert fitted.ask(again[1]).name == "ball"
    assert fitted.ask(features[0]).name == "cup", "shown as both, and more often as this"
    silent = Fitted(np.zeros((3, SIZE), dtype=np.float32), ["a", "a", "b"])
    assert np.isfinite(silent.ask(features[0]).confidence)
    same = Strangers(np.ones((4, SIZE), dtype=np.float32), np.zeros(4, dtype=int))
    assert np.isfinite(Fitted(features, ["a", "b"], strangers=same).ask(features[0]).confidence)


def test_strangers_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"features \[m, F\] of kinds \[m\]"):
        Strangers(np.zeros((3, 4), dtype=np.float32), np.zeros(2, dtype=int))


def test_an_answer_prints_name_and_percentage() -> None:
    assert str(Named("cup", "cup", 0.714, 0.6)) == "cup (71 %)"
    assert str(Named(None, "cup", 0.221, 0.1)) == "unknown (most like cup, 22 %)"
    assert str(Named(None, "cup", 0.381, 0.1)) == "perhaps cup (38 %)"


def key(features: np.ndarray, encoder: str = "a") -> Key:
    vector = np.zeros(64, dtype=np.float32)
    vector[0] = 1
    return Key(vector, encoder, features)


def teach(memory: Memory, features: np.ndarray, name: str) -> None:
    memory.write(Moment(0.0, {"words": name}), {"sight": key(features)}, name=name)


def test_names_are_refitted_forgotten_and_kept_over_a_restart(tmp_path: Path) -> None:
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
        with open_store(tmp_path) as other:  # another process teaches, and this one sees it
            teach(Memory(other), -10 * features[0], "antipode")
        assert book.ask({"sight": key(-9 * features[0])})["sight"].name == "antipode"
        assert book.forget("name 0") == 3
        assert book.ask({"sight": key(features[0])})["sight"].nearest != "name 0"
        with pytest.raises(StoreError, match="No name 'name 0' was taught; did you mean 'name"):
            book.forget("name 0")


def test_a_forgotten_name_leaves_the_bits_of_never_having_been_taught() -> None:
    """Whatever was taught in whatever order: models, confidences and answers are equal to the last bit."""
    features, names = things(5, 6, spread=1.2)
    asked, _ = things(5, 4, seed=3, spread=1.2)
    kept = [row for row, name in enumerate(names) if name != "name 2"]
    rng, books = np.random.default_rng(0), []
    for rows in (kept, rng.permutation(len(names)).tolist(), list(range(len(names)))):
        book = Names(Memory(open_store(None)), strangers=lambda sense, encoder: strangers())
        for row in rows:
            teach(book.memory, features[row], names[row])
        if len(rows) > len(kept):
            with_it = [book.ask({"sight": key(row)})["sight"] for row in asked]
            assert {one.nearest for one in with_it} > {"name 2"}
            assert book.forget("name 2") == 6
        answers = [book.ask({"sight": key(row)})["sight"] for row in asked]
        fitted = book._fits.fitted["sight"]
        books.append((fitted._models.tobytes(), fitted._own, fitted._other, [(one, one.shares) for one in answers]))
    assert books[0] == books[1] == books[2]


def test_features_of_another_encoder_are_refused() -> None:
    book = Names(Memory(open_store(None)))
    features, _ = things(1, 1)
    teach(book.memory, features[0], "cup")
    with pytest.raises(StoreError, match="described by another encoder"):
        book.ask({"sight": key(features[0], "b")})


def test_names_use_the_strangers_of_their_encoder_and_negative_examples() -> None:
    class WithScenes(Names):
        def _rows(self, sense: str, entries: Sequence[Entry]) -> list[Row]:
            rows = super()._rows(sense, entries)
            return [*rows, Row(-rows[0].features, None, -1)]

    wanted = []

    def alien(sense: str, encoder: str) -> Strangers:
        wanted.append((sense, encoder))
        return strangers()

    book = WithScenes(Memory(open_store(None)), strangers=alien)
    features, names = things(2, 1)
    for row, name in zip(features, names, strict=True):
        teach(book.memory, row, name)
    assert book.ask({"sight": key(features[0])})["sight"].name == "name 0"
    assert book.ask({"sight": key(-features[0])})["sight"].name is None
    assert wanted == [("sight", "a")]


def test_shares_count_only_for_names_taught_by_a_press() -> None:
    rng = np.random.default_rng(3)
    rest, shares = rng.normal(size=(6, SIZE)), np.sqrt(rng.dirichlet(np.ones(5), 6))
    strangers = Strangers(np.hstack([rest, shares]), np.repeat([0, 1, 2], 2), shares=5)
    both = Likeness(SIZE + 5, strangers).rows(strangers.features)
    alone = Likeness(SIZE, Strangers(rest, strangers.kinds)).rows(rest)
    np.testing.assert_allclose(both, np.hstack([alone, shares]), atol=1e-9)
    pressed = [Fitted(strangers.features, list("aabbcc"), strangers=strangers, pressed=kind) for kind in ([], ["b"])]
    plain, some = (fitted.cosines(strangers.features)[0] for fitted in pressed)
    models = [unit(part[2:4].sum(0)) for part in (alone, shares)]
    wanted = (1 - SHARES_WEIGHT) * alone @ models[0] + SHARES_WEIGHT * shares @ models[1]
    np.testing.assert_allclose(plain[:, 1], alone @ models[0], atol=1e-9)
    np.testing.assert_allclose(some[:, 1], wanted, atol=1e-9)
    np.testing.assert_allclose(some[:, [0, 2]], plain[:, [0, 2]], atol=1e-9)


def test_an_answer_gives_every_name_a_share_and_the_rest_to_unknown() -> None:
    features, names = things(4, 3)
    fitted = Fitted(features, names)
    for row in (*features, *things(9, 2, seed=4)[0]):
        answer = fitted.ask(row)
        assert answer.shares.keys() == set(names)
        assert answer.shares[answer.nearest] == pytest.approx(answer.confidence)
        assert all(share >= 0 for share in answer.shares.values())
        assert sum(answer.shares.values()) <= 1 + 1e-9
