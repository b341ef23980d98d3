"""What these tests share: a run measures no speed before it begins, except where the forecast is looked at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import unmeasured


@pytest.fixture(autouse=True, scope="module")
def no_measuring_of_speed() -> Iterator[None]:
    """`tests.unmeasured` says why nothing is overlooked."""
    with pytest.MonkeyPatch.context() as patch:
        unmeasured.patched(patch)
        yield
