"""Configuration: changes to defaults, and a clear error for everything invalid."""

import pytest

from devmind import config
from devmind.errors import ConfigError


def test_default_is_two_cpu_cores():
    assert config.load() == config.load("nursery")
    assert config.load().size == "nursery"
    assert config.differences(config.load("child")).keys() >= {"size", "precision"}


def test_sets_are_typed_and_nested():
    made = config.load(sets=["exam.holdout=theo", "lessons.watch.steps=3", "seed=7", "threads=null"])
    assert (made.exam.holdout, made.lessons["watch"].steps, made.seed, made.threads) == ("theo", 3, 7, None)
    told = config.load(sets=["lessons.a.options.by=gumbel", "lessons.a.options.n=3", "lessons.a.options.share=0.5"])
    assert told.lessons["a"].options == {"by": "gumbel", "n": 3, "share": 0.5}
    assert type(told.lessons["a"].options["n"]) is int


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("exam.holdot=x", "did you mean 'exam.holdout'"),
        ("lessons.watch.stps=1", "did you mean 'lessons.NAME.steps'"),
        ("lessons.watch.options.by=[1]", "lessons.watch.options.by"),
        ("size=hug", "'tiny', 'nursery', 'child' or 'adult'"),
        ("seed=a", "a whole number is expected"),
        ("seed=-1", "greater than or equal to 0"),
        ("minutes=0", "greater than 0"),
        ("minutes=.nan", "finite number"),
        ("size", "expects key=value"),
        ("exam=3", "exam"),
        ("device=foo", "'device': 'auto', 'cpu' or the name of a torch device is expected; got 'foo'"),
        ("device=cuda:x", "name of a torch device"),
    ],
)
def test_invalid_value_gives_a_clear_error(sets, said):
    with pytest.raises(ConfigError, match=said):
        config.load(sets=[sets])


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "mps"])
def test_device_is_accepted_even_if_this_machine_lacks_it(device):
    assert config.load(sets=[f"device={device}"]).device == device


def test_mistyped_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'nursery'"):
        config.load("nursry")
    with pytest.raises(ConfigError, match="no configuration file"):
        config.load("nowhere/x.yaml")


def test_fault_of_a_file_is_named_by_its_place(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("seed: 1\nlessons: [1")
    with pytest.raises(ConfigError, match=r"not readable YAML: line 2, column 12: expected ',' or '\]'"):
        config.load(str(path))


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2", "\x00"])
def test_file_that_is_no_mapping_is_refused(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        config.load(str(path))


def test_files_may_extend_each_other_but_not_in_a_cycle(tmp_path):
    (tmp_path / "a.yaml").write_text(f"extends: {tmp_path}/b.yaml\nexam: {{holdout: ann}}\n")
    (tmp_path / "b.yaml").write_text("extends: nursery\nexam: {bootstrap: 500}\nseed: 4\n")
    made = config.load(f"{tmp_path}/a.yaml")
    assert (made.exam.holdout, made.exam.bootstrap, made.seed) == ("ann", 500, 4)
    (tmp_path / "b.yaml").write_text(f"extends: {tmp_path}/a.yaml\n")
    with pytest.raises(ConfigError, match="circle"):
        config.load(f"{tmp_path}/a.yaml")


@pytest.mark.parametrize("parent", ["5", "0", "[nursery]", "{a: b}"])
def test_extends_must_be_a_name_or_a_path(tmp_path, parent):
    (tmp_path / "a.yaml").write_text(f"extends: {parent}\n")
    with pytest.raises(ConfigError, match=r"a.yaml': extends expects a configuration's name or path; got "):
        config.load(f"{tmp_path}/a.yaml")


def test_error_lists_the_known_configurations(tmp_path):
    with pytest.raises(ConfigError, match=r"one of: [a-z0-9_, -]*nursery[a-z0-9_, -]*\.$"):
        config.load(f"{tmp_path}/nowhere.yaml")


def test_unreadable_file_is_not_reported_as_broken(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text("seed: 4\n")

    def refused(self, *how):  # root may read all files, so a mode would prove nothing
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(ConfigError, match=r"a.yaml' may not be read; change its permissions\.$"):
        config.load(f"{tmp_path}/a.yaml")
