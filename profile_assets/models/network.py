"""The networks, and the form of each that scores.

Legend: n rows, F numeric inputs (values and indicators), C categories, V slots of all categories together,
d embedding width, H width of the first deep layer. All categories share one table, each owning a range of it.

`build_network(...)` is trained; `network.fold()` scores: the first deep layer is linear up to its activation, so
what it makes of each slot is worked out once, and a forward sums C rows of (V, H). The same scores within 1e-6.
"""

from __future__ import annotations

import copy
import math
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from profile_assets.features.spec import FIRST_SLOT, FeatureSpec
from profile_assets.models.network_base import Network as Network
from profile_assets.models.network_base import calibrated as calibrated
from profile_assets.models.own_network import import_network, unusable_network
from profile_assets.models.settings import NetworkSettings

FOLD_BYTES = 64 * 1024 * 1024  # a process; it holds 128k slots at a first layer of 128
_FLOAT_BYTES = 4


class WideAndDeep(Network):
    """logit = linear(numeric, slots) + mlp(numeric, embeddings of the slots)."""

    first_slot: Tensor

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        super().__init__(settings, spec)
        self.sizes = [feature.slots for feature in spec.categorical]
        self.register_buffer("first_slot", _starts(self.sizes), persistent=False)
        self.num_numeric = 2 * len(spec.numeric)
        self.width = settings.embedding_dim
        self.linear_numeric = nn.Parameter(torch.zeros(self.num_numeric))
        self.linear_slots = nn.Parameter(torch.zeros(sum(self.sizes)))
        self.embeddings = nn.Parameter(_embeddings(self.sizes, self.width))
        self.first = nn.Linear(self.num_numeric + len(self.sizes) * self.width, settings.hidden[0])
        self.rest = _rest(settings)

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        """numeric (F, n) float32, categories (C, n) integer slots -> logits (n,)."""
        slots = categories + self.first_slot
        vectors = functional.embedding(slots, self.embeddings)  # (C, n, d)
        inputs = torch.cat([numeric.t(), vectors.transpose(0, 1).flatten(1)], dim=1)
        linear = numeric.t() @ self.linear_numeric + self.linear_slots[slots].sum(dim=0)
        deep: Tensor = self.rest(self.first(inputs)).squeeze(1)
        return linear + deep + self.interactions(numeric, vectors)

    def interactions(self, numeric: Tensor, vectors: Tensor) -> Tensor | float:
        """What the architecture adds between the linear part and the deep one."""
        del numeric, vectors
        return 0.0

    def start_at(self, rate: float) -> None:
        """Let a fresh network give about `rate`, the share of positives, to everybody."""
        bounded = min(max(rate, 1e-6), 1 - 1e-6)
        with torch.no_grad():
            self.get_parameter(f"rest.{len(self.rest) - 1}.bias").fill_(math.log(bounded / (1 - bounded)))

    def fold(self, max_bytes: int = FOLD_BYTES) -> Folded:
        """The scoring form, in eval mode, sharing no gradient. Tables beyond `max_bytes` stay unfolded."""
        return Folded(self, max_bytes).eval().requires_grad_(False)


class DeepFM(WideAndDeep):
    """Adds the factorisation machine: the inner products of all pairs of inputs' vectors, in linear time.

    sum_{i<j} <v_i x_i, v_j x_j> = (|sum v_i x_i|^2 - sum |v_i x_i|^2) / 2   (Rendle 2010, lemma 3.1)
    """

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        super().__init__(settings, spec)
        self.numeric_vectors = nn.Parameter(torch.randn(self.num_numeric, self.width) * 0.01)

    def interactions(self, numeric: Tensor, vectors: Tensor) -> Tensor | float:
        total = vectors.sum(dim=0) + numeric.t() @ self.numeric_vectors  # (n, d)
        own = vectors.square().sum(dim=(0, 2)) + numeric.t().square() @ self.numeric_vectors.square().sum(dim=1)
        return 0.5 * (total.square().sum(dim=1) - own)


class Folded(nn.Module):
    """A network with its first deep layer folded into the slots. Takes and gives what the network does.

    Small vocabularies are folded first; those that no longer fit stay "loose": embedded, then multiplied.
    """

    first_slot: Tensor
    table_start: Tensor
    table: Tensor
    bias: Tensor
    numeric_weight: Tensor
    embeddings: Tensor
    linear_numeric: Tensor
    linear_slots: Tensor

    def __init__(self, network: WideAndDeep, max_bytes: int) -> None:
        super().__init__()
        state = {name: tensor.detach() for name, tensor in network.state_dict().items()}
        weights = list(state["first.weight"].t().split([network.num_numeric, *[network.width] * len(network.sizes)]))
        self.folded = _choose_folded(network.sizes, len(state["first.bias"]), max_bytes)
        self.loose = [place for place in range(len(network.sizes)) if place not in self.folded]
        owned = state["embeddings"].split(network.sizes) if network.sizes else ()
        self._keep("first_slot", network.first_slot)
        self._keep(
            "table_start", _starts([network.sizes[place] for place in self.folded]).to(network.first_slot.device)
        )
        self._keep("table", _fold([(owned[place], weights[1 + place]) for place in self.folded], state["first.bias"]))
        self._keep("bias", state["first.bias"])
        self._keep("numeric_weight", weights[0].contiguous())
        self._keep("embeddings", state["embeddings"])
        self._keep("linear_numeric", state["linear_numeric"])
        self._keep("linear_slots", state["linear_slots"])
        for place in self.loose:
            self._keep(f"loose_{place}", weights[1 + place].contiguous())
        self.factors = Factors(network) if isinstance(network, DeepFM) else None
        self.rest = copy.deepcopy(network.rest)

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor.detach().clone(), persistent=False)

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        """numeric (F, n) float32, categories (C, n) integer slots -> logits (n,)."""
        slots = categories + self.first_slot
        logits = torch.addmv(self.linear_slots[slots].sum(dim=0), numeric.t(), self.linear_numeric)
        if self.factors is not None:
            logits += self.factors(numeric, slots, self.embeddings)
        deep: Tensor = self.rest(self._first(numeric, categories, slots)).squeeze(1)
        return logits + deep

    def _first(self, numeric: Tensor, categories: Tensor, slots: Tensor) -> Tensor:
        """The first deep layer before its activation, (n, H)."""
        if self.folded:
            rows = categories[self.folded] + self.table_start if self.loose else slots
            hidden = functional.embedding_bag(rows.t().contiguous(), self.table, mode="sum")
        else:
            hidden = self.bias.repeat(numeric.shape[1], 1)
        hidden.addmm_(numeric.t(), self.numeric_weight)
        for place in self.loose:
            hidden.addmm_(functional.embedding(slots[place], self.embeddings), self.get_buffer(f"loose_{place}"))
        return hidden


class Factors(nn.Module):
    """The factorisation machine of a folded DeepFM, with the squares of its vectors worked out once."""

    vectors: Tensor
    numeric_squares: Tensor
    slot_squares: Tensor

    def __init__(self, network: DeepFM) -> None:
        super().__init__()
        vectors = network.numeric_vectors.detach().clone()
        self.register_buffer("vectors", vectors, persistent=False)
        self.register_buffer("numeric_squares", vectors.square().sum(dim=1), persistent=False)
        self.register_buffer("slot_squares", network.embeddings.detach().square().sum(dim=1), persistent=False)

    def forward(self, numeric: Tensor, slots: Tensor, embeddings: Tensor) -> Tensor:
        total = numeric.t() @ self.vectors
        if len(slots):
            total += functional.embedding_bag(slots.t().contiguous(), embeddings, mode="sum")
        own = torch.addmv(self.slot_squares[slots].sum(dim=0), numeric.t().square(), self.numeric_squares)
        return 0.5 * (total.square().sum(dim=1) - own)


def _choose_folded(sizes: list[int], hidden: int, max_bytes: int) -> list[int]:
    """The categories to fold, in their own order: the smallest ones whose tables together fit."""
    chosen: list[int] = []
    left = max_bytes
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place]):
        left -= sizes[place] * hidden * _FLOAT_BYTES
        if left >= 0:
            chosen.append(place)
    return sorted(chosen)


def _fold(pairs: list[tuple[Tensor, Tensor]], bias: Tensor) -> Tensor:
    """(V, H): what the first layer makes of each slot. The first category carries the bias: every row has one of it."""
    tables = [bias.new_zeros(0, len(bias))]
    for place, (vectors, weight) in enumerate(pairs):
        product = vectors.double() @ weight.double()
        tables.append((product + bias.double() if place == 0 else product).float())
    return torch.cat(tables)


def _starts(sizes: list[int]) -> Tensor:
    """Where each category's slots begin in a joint table, (C, 1)."""
    return torch.tensor([0, *accumulate(sizes)][: len(sizes)], dtype=torch.int64).reshape(-1, 1)


def _embeddings(sizes: list[int], width: int) -> Tensor:
    """Small random vectors; zero for the unknown and missing slots, which training may never touch."""
    table = torch.randn(sum(sizes), width) * 0.05
    for start in _starts(sizes).flatten().tolist():
        table[start : start + FIRST_SLOT] = 0.0
    return table


def _rest(settings: NetworkSettings) -> nn.Sequential:
    """The deep part from the first layer's activation on."""
    layers: list[nn.Module] = []
    for width, following in pairwise((*settings.hidden, 1)):
        layers += [nn.ReLU(inplace=True), nn.Dropout(settings.dropout), nn.Linear(width, following)]
    return nn.Sequential(*layers)


def build_network(settings: NetworkSettings, spec: FeatureSpec) -> Network:
    """A network with fresh weights, from torch's current random state. BundleError where its class is unusable."""
    name = settings.architecture
    kind = _KNOWN[name] if name in _KNOWN else import_network(name)
    try:
        return kind(settings, spec)
    except (TypeError, ValueError, RuntimeError) as error:
        raise unusable_network(name, f"it cannot be made: {error}") from error


_KNOWN: dict[str, type[Network]] = {"wide_and_deep": WideAndDeep, "deepfm": DeepFM}
