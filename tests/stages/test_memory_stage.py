"""The memory stage as a whole: the laws of a stage, at size tiny."""

import pytest

from devmind.testing import check_stage
from stages.memory.stage import MemoryStage


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_laws_of_a_stage():
    check_stage(MemoryStage())
