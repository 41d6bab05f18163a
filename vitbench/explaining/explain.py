"""Explain: from a file of weights and some images to an explanation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from vitbench import registry
from vitbench.components.contracts import Residual
from vitbench.config.model import ModelSpec
from vitbench.data.catalog import DataError
from vitbench.data.images import normalised
from vitbench.explaining import position_maps
from vitbench.explaining.attention_maps import attention_to_patches, distances, rollout
from vitbench.explaining.inputs import Inputs, class_names, statistics
from vitbench.model.build import Model
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import load_model, read_about
from vitbench.store.explanation import (
    AVERAGED,
    MOST_EMBEDDED,
    MOST_FILTERS,
    MOST_PAIRED,
    MOST_SIMILAR,
    About,
    Array,
    Example,
    Explanation,
    Picture,
    evenly,
)

SHARED = 12
"""Images that are shown whatever the model says of them: those of all models that are given the same images, which can
be compared by them."""
SHOWN = 4
"""Images of those predicted right, and as many of those predicted wrong, that are shown at least, where there are."""

NAMED = 5  # Classes that a sentence names
JUDGED_AT_ONCE = 256  # Images in a batch
MAPS_AT_ONCE = 16_000_000  # Numbers in the attention maps of all layers of a batch: 64 MB


def explain_model(file: Path, inputs: Inputs, device: torch.device) -> Explanation:
    """Explanation of a model: all that there is to see of it.

    Args:
        file: of its weights.
        inputs: images; the confusion matrix needs the labels of all of them.
        device: where the model runs.

    Raises:
        WeightsError: see :func:`vitbench.model.weights.load_model`.
        DataError: where the file does not say how images are normalised, what it says of classes is damaged, or its
            model takes no images in colour.
    """
    about, model = read_about(file), load_model(file).to(device)
    if (channels := model.spec.channels) != (seen := inputs.pixels.shape[1]):
        raise DataError(f"{file}: its model takes images of {channels} channel{'s' if channels > 1 else ''}, and "
                        f"images are read in {seen}, red, green and blue")  # fmt: skip
    mean, std = (each.to(device) for each in statistics(about, file))
    classes = class_names(about, model.spec, file)
    maker = _Maker(model, inputs, classes, lambda pixels: normalised(pixels.to(device), mean, std))
    return maker.explanation(about)


@dataclass
class _Maker:
    """An explanation in the making."""

    model: Model
    inputs: Inputs
    classes: tuple[str, ...]
    normalise: Callable[[Tensor], Tensor]  # uint8 images anywhere → what the model takes
    arrays: dict[str, Array] = field(default_factory=dict)
    absent: dict[Picture, str] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)

    def explanation(self, about: Mapping[str, Any]) -> Explanation:
        inputs, spec = self.inputs, self.model.spec
        predicted, probabilities = self._judge()
        chosen = _chosen(inputs.labels, predicted)
        self._confusion(predicted)
        if isinstance(self.model, VisionTransformer):
            self._parts(self.model)
            if chosen:
                self._tokens(self.model, chosen)
                self._attention(self.model, chosen)
            else:
                self.absent |= dict.fromkeys((*TOKENS, *ATTENTION), f"of all images {NO_OUTPUT}")
        else:
            reason = f'architecture "{spec.architecture}" is not made of components: it has no such thing'
            names: tuple[Picture, ...] = ("filters", "positions", "similarity", *TOKENS, *ATTENTION)
            self.absent |= dict.fromkeys(names, reason)
        examples = tuple(
            Example(name=inputs.names[i], label=inputs.labels[i], predicted=answer, probability=probabilities[i])
            for i in chosen if (answer := predicted[i]) is not None
        )  # fmt: skip
        pixels = inputs.pixels[chosen].permute(0, 2, 3, 1).contiguous().numpy()
        trial = about.get("trial")
        body = About(trial=trial if isinstance(trial, str) else None, model=spec, images=inputs.words,
                     classes=self.classes, shown=examples, absent=self.absent, **self.words)  # fmt: skip
        return Explanation(body, pixels, **self.arrays)

    @torch.no_grad()
    def _judge(self) -> tuple[list[int | None], list[float]]:
        """Class that the model gives each image, and with which probability.

        None where a logit is no finite number: the largest of such is no class that the model gives.
        """
        predicted, probabilities = list[int | None](), list[float]()
        for images in map(self.normalise, self.inputs.pixels.split(JUDGED_AT_ONCE)):
            logits = self.model(images)
            largest = logits.float().softmax(dim=-1).max(dim=-1)
            finite = logits.isfinite().all(dim=-1).tolist()
            predicted += [each if ok else None for each, ok in zip(largest.indices.tolist(), finite, strict=True)]
            probabilities += [min(1.0, each) for each in largest.values.tolist()]  # rounding goes beyond
        return predicted, probabilities

    def _confusion(self, predicted: Sequence[int | None]) -> None:
        """How many images of each class are predicted to be of each."""
        labels = [label for label in self.inputs.labels if label is not None]
        answers = [answer for answer in predicted if answer is not None]
        if len(answers) < len(predicted):
            self.absent["confusion"] = f"of {len(predicted) - len(answers):,} of {len(predicted):,} images {NO_OUTPUT}"
        elif len(labels) < len(predicted):
            self.absent["confusion"] = (
                f"of {len(labels):,} of {len(predicted):,} images the class is known: a confusion matrix needs that of "
                f"all, as the name of the first folder that an image lies in: {_named(self.classes)}"
            )
        else:
            counts = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)
            np.add.at(counts, (np.array(labels), np.array(answers)), 1)
            self.arrays["confusion"] = counts

    def _show(self, **arrays: Tensor) -> None:
        """Take arrays that belong together into the explanation; all are absent where one is not finite."""
        if all(bool(array.isfinite().all()) for array in arrays.values()):
            self.arrays |= {name: array.float().cpu().contiguous().numpy() for name, array in arrays.items()}
        else:
            self.absent |= dict.fromkeys(cast(Iterable[Picture], arrays), NOT_FINITE)

    def _parts(self, model: VisionTransformer) -> None:
        """Pictures of the weights alone."""
        spec = model.spec
        weight = getattr(model.patching, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 4 and weight.shape[1] == 3:
            filters = weight.detach().float().cpu()
            largest = filters.flatten(1).norm(dim=1).sort(descending=True, stable=True).indices[:MOST_FILTERS]
            self._show(filters=filters[largest].permute(0, 2, 3, 1))
        else:
            self.absent["filters"] = f'patching "{spec.patching}" has no filters over three channels'
        table, rotation = position_maps.added(model.positions, spec), model.positions.turning()
        self.words["learned"] = any(parameter.requires_grad for parameter in model.positions.parameters())
        self.words["added"] = table is not None
        if table is not None:
            self._show(positions=table)
            self._similarity(spec.patches, lambda: position_maps.alike(table[spec.pooled_prefix :]))
        elif rotation is not None:
            self.absent["positions"] = f'positions "{spec.positions}" add nothing to tokens: they turn queries and keys'
            if rotation.ndim == 3:
                self._similarity(spec.patches, lambda: position_maps.turned(rotation[:, spec.prefix :]))
            else:
                self.absent["similarity"] = f'positions "{spec.positions}" are other ones in each block and head'
        else:
            none = "are made of the tokens" if model.positions.of_tokens else "give the model no positions"
            self.absent |= dict.fromkeys(("positions", "similarity"), f'positions "{spec.positions}" {none}')

    def _similarity(self, patches: int, compare: Callable[[], Tensor]) -> None:
        if patches > MOST_SIMILAR:
            self.absent["similarity"] = (
                f"a patch's position would be compared with those of {patches:,} patches, and a picture takes at most "
                f"{MOST_SIMILAR:,}"
            )
        else:
            self._show(similarity=compare())

    @torch.no_grad()
    def _tokens(self, model: VisionTransformer, chosen: Sequence[int]) -> None:
        """Embedded patches, scores and weights of the first image that is shown, and token norms of all of them."""
        spec, pixels = model.spec, self.inputs.pixels[chosen]
        first = self.normalise(pixels[:1])
        self._show(embedded=model.eval().patching(first)[0, :, :MOST_EMBEDDED].T.unflatten(-1, spec.grid))
        reads: tuple[tuple[Picture, Callable[[], Tensor]], ...] = (
            (
                "norms",
                lambda: torch.cat([model.token_norms(self.normalise(part)) for part in pixels.split(JUDGED_AT_ONCE)]),
            ),
            ("weights", lambda: model.attention_maps(first)[0][0, 0]),
            ("scores", lambda: model.attention_scores(first)[0][0, 0]),
        )
        for name, read in reads:
            if name != "norms" and spec.tokens > MOST_PAIRED:
                self.absent[name] = (
                    f"the model has {spec.tokens:,} tokens, and a picture of all pairs at most {MOST_PAIRED:,}"
                )
                continue
            try:
                self._show(**{name: read()})
            except ValueError as error:
                self.absent[name] = str(error)

    @torch.no_grad()
    def _attention(self, model: VisionTransformer, chosen: Sequence[int]) -> None:
        """Attention of the tokens: in the images that are shown, and on average."""
        spec = model.spec
        at_once = max(1, MAPS_AT_ONCE // (spec.depth * spec.heads * spec.tokens**2))
        try:
            seen = [_seen(model, self.normalise(part)) for part in self.inputs.pixels[chosen].split(at_once)]
        except ValueError as error:
            self.absent |= dict.fromkeys(ATTENTION, str(error))
            return
        # Not the first: images in folders come class by class.
        measured = self.inputs.pixels[evenly(len(self.inputs.pixels), AVERAGED)]
        means, finite = list[Tensor](), True
        for images in map(self.normalise, measured.split(at_once)):
            maps = model.attention_maps(images)
            finite = finite and all(bool(each.isfinite().all()) for each in maps)
            means.append(torch.stack([distances(each, spec) for each in maps], dim=1))
        mean = torch.cat(means).nanmean(dim=0)  # an image in which a head attends to no patch has no distance
        if finite and not bool(mean.isfinite().all()):
            self.absent["distances"] = "a head attends to no patch"
        else:
            self._show(distances=mean if finite else torch.full_like(mean, torch.nan))
        pictures = [each for each in seen if each is not None]
        if len(pictures) < len(seen):
            reason = f'pooling "{spec.pooling}" is no weighted mean of tokens: it does not say whose attention counts'
            self.absent |= dict.fromkeys(("attention", "last_layer", "rollouts"), reason)
            return
        whole = {name: torch.cat([each[name] for each in pictures]) for name in pictures[0]}
        self.words["attention_of"] = _attention_of(whole["shares"], spec)
        self._show(last_layer=whole["last_layer"], rollouts=whole["rollouts"])
        self._show(attention=whole["attention"])


TOKENS: tuple[Picture, ...] = ("embedded", "scores", "weights", "norms")
ATTENTION: tuple[Picture, ...] = ("attention", "distances", "last_layer", "rollouts")
NOT_FINITE = "with these weights it holds what is no finite number, as after a training that diverged"
NO_OUTPUT = "the model's output is no finite number"


def _seen(model: VisionTransformer, images: Tensor) -> dict[str, Tensor] | None:
    """Attention in normalised images, by its name in :class:`vitbench.store.explanation.Explanation`.

    And ``shares`` (B, N), what each token gives to the pooled vector; None where the pooling does not say. Raises
    ValueError where the model has no attention maps.
    """
    maps, prefix = model.attention_maps(images), model.spec.prefix
    shares = model.shares(model.encoder(model.tokens(images), model.positions.turning()))
    if shares is None:
        return None
    by_layer = torch.stack([attention_to_patches(shares, each, prefix) for each in maps], dim=1)
    residual: type[Residual] = registry.load("residual", model.spec.residual)
    through = attention_to_patches(shares, rollout(maps, residual=residual.passes), prefix)
    return {"shares": shares, "attention": by_layer, "last_layer": by_layer[:, -1].mean(dim=1), "rollouts": through}


def _attention_of(shares: Tensor, spec: ModelSpec) -> str:
    """Whose attention is shown, in words, by what the tokens give to the pooled vector."""
    if spec.pooled_prefix and bool((shares[:, 0] == 1).all()):
        return "the class token"
    which = "all tokens but the registers" if spec.registers else "all tokens"
    if bool((shares[:, spec.prefix :] == shares[0, -1]).all()):
        return f"the mean of {which}, which is what is pooled (there is no class token)"
    return f"the mean of {which}, as the pooling weighs them (there is no class token)"


def _named(classes: Sequence[str]) -> str:
    more = f" or one of {len(classes) - NAMED:,} others" if len(classes) > NAMED else ""
    return f"{', '.join(classes[:NAMED])}{more}"


def _chosen(labels: Sequence[int | None], predicted: Sequence[int | None]) -> list[int]:
    """The images that are shown: some whatever the model says of them, and of its own what they lack.

    The first are ``SHARED`` ones, by their labels alone: the first of each class, then the second; of more classes
    evenly chosen ones. So models that are given the same images are shown on the same. Where the model is right, or
    wrong, in fewer than ``SHOWN`` of them, others follow: of each class the first that it predicts so, of many classes
    evenly chosen ones. Images of unknown class are shown where none is known, the first ones. Those of which the model
    tells no class are not among them.
    """
    shared = _shared(labels)
    known = [i for i in shared if predicted[i] is not None]
    for right in (True, False):
        first = dict[int, int]()
        for i, (label, answer) in enumerate(zip(labels, predicted, strict=True)):
            if label is not None and answer is not None and (label == answer) == right and i not in shared:
                first.setdefault(label, i)
        lacking = SHOWN - sum((labels[i] == predicted[i]) == right for i in known if i in shared)
        known += _some([i for _, i in sorted(first.items())], max(0, lacking))
    return known or [i for i, answer in enumerate(predicted) if answer is not None][:SHARED]


def _shared(labels: Sequence[int | None]) -> list[int]:
    """Images by their labels alone: of each class as many as of every other, or one more."""
    of_class = dict[int, list[int]]()
    for i, label in enumerate(labels):
        if label is not None:
            of_class.setdefault(label, []).append(i)
    classes = _some(sorted(of_class), SHARED)
    rounds = (of_class[label][turn : turn + 1] for turn in range(SHARED) for label in classes)
    return [i for images in rounds for i in images][:SHARED]


def _some(numbers: Sequence[int], most: int) -> list[int]:
    return [numbers[i] for i in evenly(len(numbers), most)]
