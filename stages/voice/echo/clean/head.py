"""The head that separates speech from noise: a gain for each band of each frame."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Regression
from devmind.agent.rows import Carry, Leaf
from devmind.agent.taps import Tapped
from stages.voice.ear import FRAMES, MEL, SCALE, SHIFT, TOKENS
from stages.voice.echo.clean.filters import filter_sound


class CleanedHead(Head):
    """Taps ("trunk:listen", "listen"): the ear's log-mel, frame by frame, with the trunk's features and the ear's
    tokens of the same Moment, through a gated recurrent unit that can follow the noise over time. It answers with gains
    0 to 1 of the ear's bands, [..., 8, 64].

    A gain on the sound heard keeps its phases, which the codec here does not. A row of a batch is one episode.
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.25),)

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        mels, hidden = inlet.map_channels[MEL], hidden or max(32, inlet.width)
        self.look = nn.Conv1d(mels, hidden, 3)
        self.think = nn.Linear(2 * inlet.width, hidden)
        self.memory = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.answer = nn.Linear(2 * hidden, mels)
        self.carry_spec = {"hidden": Leaf((hidden,))}

    def sound_through(self, answers: Tensor, heard: Tensor) -> Tensor:
        return filter_sound(heard[None], answers.flatten(0, 1)[None])[0]

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Regression, Carry]:
        mel = (tapped.maps[MEL].flatten(-2) + SHIFT) * SCALE
        lead = mel.shape[:-2]
        # Each frame with the two before it.
        looked = self.look(mel[..., -(FRAMES + 2) :].flatten(0, -3))
        looked = torch.relu(looked).mT.unflatten(0, lead)
        # Each token twice, side by side: the trunk's feature of it, and what the ear made of it.
        thought = (tapped.tokens * tapped.present[..., None]).unflatten(-2, (2, TOKENS)).transpose(-3, -2).flatten(-2)
        thoughts = torch.relu(self.think(thought)).repeat_interleave(FRAMES // TOKENS, -2)
        inputs = torch.cat((looked, thoughts), -1)
        row = inputs.flatten(1, -2) if len(lead) > 1 else inputs
        features, last = self.memory(row, carry["hidden"][None].to(row.dtype))
        both = torch.cat((features, row[..., : looked.shape[-1]]), -1)
        gains = self.answer(both).sigmoid()
        return Regression(gains.unflatten(1, (*lead[1:], FRAMES)) if len(lead) > 1 else gains), {"hidden": last[0]}
