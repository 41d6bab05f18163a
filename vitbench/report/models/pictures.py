"""Explanations: what there is to see of trained models, as pictures with words between them; without torch.

Of several models the pictures of one kind stand beside one another. A picture that a model cannot have is a sentence
that says why.

What is laid over an image is as opaque as the attention is large. The scale is that of a layer, the same for all models
that are shown beside one another, and never ends near uniform attention: so a head which attends to all patches alike
looks as it is, pale.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from vitbench.analysis.attention_distance import reach
from vitbench.config.base import pair
from vitbench.report.figures import charts
from vitbench.report.models import explanation_text
from vitbench.report.models.examples import Outcome, PictureGroup, Shown, ShownModel, chosen, in_full, sentence
from vitbench.report.text import Md, escape
from vitbench.store.explanation import AVERAGED, Array, Explanation, evenly
from vitbench.store.explanation import Picture as Name
from vitbench.wording import plural

MOST = 12  # Layers, and heads, whose attention is shown; of more, evenly chosen ones
FILTERS_A_LINE, IMAGES_A_LINE = 8, 4
MOST_TOKENS = 260  # In a heatmap of positions, whose rows are tokens: those of 16 × 16 patches, and some before them
MOST_MAPPED = 16
"""Rows, and columns, of patches that have a map of similarity; of more, evenly chosen ones: a map of 24 × 24 or
32 × 32 patches takes so much room that no more of them can be seen side by side, and a table of them all is a million
numbers."""
SHARE, LARGEST = "attention to the patch", "largest patch"
PALE = 4  # Times the share of uniform attention, up to which a scale reaches at the least

TITLES: dict[Name, str] = {
    "filters": "patch-embedding filters", "embedded": "embedded patches", "positions": "positions as numbers",
    "similarity": "similarity of positions", "scores": "scores of all pairs of tokens",
    "weights": "attention weights of all pairs of tokens", "norms": "norms of tokens",
    "attention": "attention of every layer and head", "distances": "mean attention distance",
    "last_layer": "attention in the last layer", "rollouts": "attention rollout", "confusion": "confusion matrix",
}  # fmt: skip
WORDS: dict[Outcome, str] = {
    "right": "classified correctly", "differing": "classified correctly by some of the models only",
    "wrong": "classified wrongly", "unlabelled": "of no known class",
}  # fmt: skip
PREDICTED = "Images classified correctly and wrongly"

PATCHES = (
    "An image, and the {rows} × {columns} patches of {height} × {width} pixels of which the model makes its {tokens}, "
    "row by row{after}."
)
FILTERS = "Patch-embedding filters, the largest first, in red, green, blue, each at its own contrast; grey is zero."
EMBEDDED = (
    "An image after the patch embedding: a map of each of the first channels, one pixel for each patch, at its own "
    "contrast; grey is zero."
)
PAIRS = (
    "Scores between all tokens of an image, and the attention weights after the softmax; each row of weights sums to "
    "1. Class token and registers come first."
)
NORMS = (
    "Norms of tokens after each block. A point is an image. Patches with many times the norm of the others are "
    "artefacts, whose part registers can take (Darcet et al. 2023, arXiv 2309.16588)."
)
SIMILARITY = (
    "Cosine similarity of positions: at the place of each patch a map of how alike its position is to those of all "
    "patches, itself (1) among them."
)
HEADS = (
    "Attention by layer and head: the more opaque, the more a head attends to a patch; no colour is none. The scale is "
    "that of a layer, the same for all images beside one another: it ends at the share above the layer, the largest, "
    f"or {PALE} times that of uniform attention where this is more."
)
REST = " What is left of a head's attention goes to tokens that are no patches."
DISTANCES = (
    "How far each head looks: the distance from a patch to those that it attends to, weighted by attention and "
    f"averaged over patches and up to {AVERAGED} of the images. A point is a head, the line their mean; the dashed "
    "line is attention that is the same to all patches."
)
EXAMPLES = (
    "Above each image the predicted class and its probability; in brackets the true class, where that is another."
)
MAPS = (
    " Below, attention in the last layer, and attention rollout, which follows attention and residual connections "
    "through all layers; each row has one scale, from none to the share above it."
)
CONFUSION = (
    "Images by their true class (rows) and by the class that is predicted (columns). Numbers count images; the colour "
    "is their share of the row."
)


def sections(models: Sequence[ShownModel], most: int = MOST) -> dict[str, list[PictureGroup]]:
    """Heading → what can be seen of some models, in the order in which an image passes through them; of ``most`` layers
    and heads, evenly chosen ones, the attention.
    """
    mapped = any(model.explanation.last_layer is not None for model in models)
    parts = {
        "Patches": [
            PictureGroup("", _patches(models)),
            _each(FILTERS, "filters", _filters, models),
            _each(EMBEDDED, "embedded", _embedded, models),
        ],
        "Positions": [
            _each(SIMILARITY, "similarity", _similarity, models),
            _each("", "positions", _added, [m for m in models if not m.explanation.about.learned]),
        ],
        "Tokens": [PictureGroup(PAIRS, _pairs(models)), _each(NORMS, "norms", _norms, models)],
        "Attention by layer and head": [*_attention(models, most), PictureGroup(DISTANCES, _distances(models))],
        PREDICTED: _examples(models, EXAMPLES + (MAPS if mapped else "")),
        "Confusion matrix": [_each(CONFUSION, "confusion", _confusion, models)],
    }
    filled = {title: [group for group in groups if group.pictures] for title, groups in parts.items()}
    return {title: groups for title, groups in filled.items() if groups}


def about(explanation: Explanation) -> Md:
    """Which model, which images, and how many it classifies correctly."""
    spec = explanation.about.model
    size: str = spec.architecture
    if spec.of_components:
        size = f"{plural(spec.depth, 'layer')}, {plural(spec.heads, 'head')}, width {spec.dim}"
    right = ""
    if (counts := explanation.confusion) is not None and counts.sum():
        share = 100 * counts.trace() / counts.sum()
        right = f"; it classifies {int(counts.trace()):,} of {counts.sum():,} correctly ({share:.1f} %)"
    trial = f", of the trial {escape(explanation.about.trial)}" if explanation.about.trial else ""
    return Md(f"A model of {escape(size)}{trial}, seen on {escape(explanation.about.images)}{right}.")


def missing(explanation: Explanation) -> list[Md]:
    """Pictures that are not there, and why: one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in explanation.about.absent.items():
        reasons.setdefault(reason, []).append(TITLES[name])
    lines = [f"{', '.join(names)}: {why}." for why, names in reasons.items()]
    return [Md(escape(line[:1].upper() + line[1:])) for line in lines]


def _each(
    text: str, name: Name, make: Callable[[ShownModel, Array], charts.Picture], models: Sequence[ShownModel]
) -> PictureGroup:
    """One picture of each model whose explanation has the numbers of that name."""
    arrays = [(model, getattr(model.explanation, name)) for model in models]
    return PictureGroup(text, [make(model, numbers) for model, numbers in arrays if numbers is not None])


def _patches(models: Sequence[ShownModel]) -> list[charts.Picture]:
    """An image cut into patches; once for models that cut the same one in the same way."""
    groups, distinct = chosen(models), dict[tuple[str, bytes], charts.Picture]()
    for number, model in enumerate(models):
        explanation, spec = model.explanation, model.explanation.about.model
        if not spec.of_components or not len(explanation.pixels):
            continue
        image = explanation.pixels[next((g.indices[number][0] for g in groups if g.indices[number]), 0)]
        (rows, columns), (height, width) = spec.grid, pair(spec.patch_size)
        after = f", after {plural(spec.prefix, 'other token')}" if spec.prefix else ""
        caption = PATCHES.format(rows=rows, columns=columns, height=height, width=width,
                                 tokens=plural(spec.patches, "token"), after=after)  # fmt: skip
        cut = np.full((rows, height + 1, columns, width + 1, 3), 255, dtype=np.uint8)
        cut[:, :height, :, :width] = image.reshape(rows, height, columns, width, 3)
        whole = cut.reshape(rows * (height + 1), columns * (width + 1), 3)[:-1, :-1]
        chart = charts.Tiles([charts.Strip("", [charts.Tile(image), charts.Tile(whole)])], 2)
        alt = f"an image, and the same image cut into {rows} by {columns} patches"
        distinct.setdefault((caption, image.tobytes()), charts.Picture(f"{model.slug}patches", chart, alt, caption))
    return [*distinct.values()]


def _filters(model: ShownModel, filters: Array) -> charts.Picture:
    dim, (height, width) = model.explanation.about.model.dim, filters.shape[1:3]
    which = f"all {dim} filters" if len(filters) == dim else f"the {len(filters)} largest of {dim} filters"
    what = f"{len(filters)} patch-embedding filters"
    return _small(model, "filters", filters, what, f"{which}, {height} × {width} pixels.")


def _embedded(model: ShownModel, embedded: Array) -> charts.Picture:
    name, dim = model.explanation.about.shown[0].name, model.explanation.about.model.dim
    what, maps = f"the first {len(embedded)} channels of embedded patches", np.repeat(embedded[..., None], 3, axis=3)
    return _small(model, "embedded", maps, what, f"{name}: the first {len(embedded)} of {dim} channels.")


def _small(model: ShownModel, name: str, arrays: Array, what: str, caption: str) -> charts.Picture:
    """Arrays as small images: zero is grey, and the largest weight of each is an end of its scale."""
    scaled = [127.5 + 127.5 * (each / (float(np.abs(each).max()) or 1.0)) for each in arrays]
    tiles = [charts.Tile(np.asarray(each.round(), dtype=np.uint8)) for each in scaled]
    chart = charts.Tiles([charts.Strip("", tiles)], FILTERS_A_LINE)
    return model.picture(name, chart, f"{what} as small images", caption)


def _pairs(models: Sequence[ShownModel]) -> list[charts.Picture]:
    """Scores and weights of one head, of each model beside one another."""
    pictures = []
    for model in models:
        explanation = model.explanation
        for name, values in (("scores", explanation.scores), ("weights", explanation.weights)):
            if values is not None:
                what = f"{name} of layer 1, head 1, in {explanation.about.shown[0].name}"
                chart = charts.Heat(values, name, "query token", "key token", centred=name == "scores")
                pictures.append(model.picture(name, chart, f"{what}, a row for each query", f"{what}."))
    return pictures


def _norms(model: ShownModel, norms: Array) -> charts.Picture:
    spec = model.explanation.about.model
    kinds = {"class token": norms[:, :, : spec.pooled_prefix],
             "registers": norms[:, :, spec.pooled_prefix : spec.prefix],
             "patches": norms[:, :, spec.prefix :]}  # fmt: skip
    lines = {name: of.mean(axis=2) for name, of in kinds.items() if of.shape[2]}
    lines[LARGEST] = kinds["patches"].max(axis=2)
    rows = [(name, float(layer), float(value)) for name, of in lines.items()
            for each in of for layer, value in enumerate(each, 1)]  # fmt: skip
    colouring = charts.Colouring("", [*kinds, LARGEST], [*lines])
    points = pd.DataFrame(rows, columns=["colour", "at", "value"])
    blocks = [float(n) for n in range(1, spec.depth + 1)]
    chart = charts.Trends("block", "norm of the token", blocks, points, colouring, logarithmic=False, from_zero=True)
    last = kinds["patches"][:, -1]
    caption = f"{plural(len(norms), 'image')}."
    if median := float(np.median(last)):
        caption += (
            f" After the last block the largest norm of a patch is {float(last.max()) / median:.1f} times the median."
        )
    return model.picture("norms", chart, "norms of class token, registers and patches after each block", caption)


def _similarity(model: ShownModel, similarity: Array) -> charts.Picture:
    explanation = model.explanation
    caption = explanation_text.positions(model)
    if not explanation.about.added:
        caption += (
            " The positions are one vector turned to the places of two patches, all its channels alike in length."
        )
    rows, columns = explanation.about.model.grid
    down, across = evenly(rows, MOST_MAPPED), evenly(columns, MOST_MAPPED)
    if len(down) < rows or len(across) < columns:
        caption += (f" Shown, and in the table of numbers, are the maps of {len(down)} of {plural(rows, 'row')} and "
                    f"{len(across)} of {plural(columns, 'column')} of patches.")  # fmt: skip
    maps = similarity.reshape(rows, columns, -1)[np.ix_(down, across)].reshape(-1, rows * columns)
    chart = charts.Nested(maps, explanation.about.model.grid, down, across, "cosine similarity")
    alt = f"cosine similarity of positions: maps in {plural(len(down), 'row')} and {plural(len(across), 'column')}"
    return charts.Picture(
        f"{model.slug}similarity", chart, f"{model.name or 'model'}: {alt}, one for each patch", caption
    )


def _added(model: ShownModel, table: Array) -> charts.Picture:
    spec = model.explanation.about.model
    which = f" of the first {MOST_TOKENS} of {len(table)} tokens" if len(table) > MOST_TOKENS else ""
    chart = charts.Heat(table[:MOST_TOKENS], "added to the token", "token", "channel", centred=True)
    first = f" ({plural(spec.pooled_prefix, 'token')} before the patches' first)" if spec.pooled_prefix else ""
    caption = f"what is added to the tokens{which}: a row for each token{first}, a column for each channel."
    return model.picture("positions", chart, "position embeddings as a heatmap of tokens by channels", caption)


def _attention(models: Sequence[ShownModel], most: int) -> Iterator[PictureGroup]:
    """Attention maps of every layer and head, of an image that is classified correctly and of one that is not."""
    having = [model for model in models if model.explanation.attention is not None]
    rest = REST if any(model.explanation.about.model.prefix for model in having) else ""
    for number, group in enumerate(in_full(having), 1):
        pairs = [(model, indices[0]) for model, indices in zip(having, group.indices, strict=True) if indices]
        tops = _tops([(model, _maps(model.explanation, index).max(axis=(1, 2))) for model, index in pairs])
        pictures = [_heads(f"attention-{number}", model, index, tops, most) for model, index in pairs]
        yield PictureGroup(_titled(having, group, "" if number > 1 else HEADS + rest), pictures)


def _titled(models: Sequence[ShownModel], group: Shown, read: str) -> str:
    """Text above the pictures of one outcome: which outcome it is, of several models, and how to read the pictures."""
    differ = "" if group.same else ", another for each model, since no kept image is so for all"
    outcome = f"Images {WORDS[group.outcome]}{differ}." if len(models) > 1 else ""
    return " ".join(filter(None, (outcome, read)))


def _maps(explanation: Explanation, index: int) -> charts.Numbers:
    """(L, H, P), attention to the patches of one image."""
    assert explanation.attention is not None
    return np.asarray(explanation.attention[index])


def _tops(of_models: Sequence[tuple[ShownModel, charts.Numbers]]) -> charts.Numbers:
    """Where the scale of each layer, or row, ends, over models of which some may have fewer, by the largest shares."""
    ends = np.zeros(max((len(tops) for _, tops in of_models), default=0))
    for model, tops in of_models:
        least = min(1.0, PALE / model.explanation.about.model.patches)
        ends[: len(tops)] = np.maximum(ends[: len(tops)], np.maximum(tops, least))
    return ends


def _heads(name: str, model: ShownModel, index: int, tops: charts.Numbers, most: int) -> charts.Picture:
    """The image, and maps over it: a row for each layer and a column for each head."""
    explanation, spec = model.explanation, model.explanation.about.model
    layers, heads = evenly(spec.depth, most), evenly(spec.heads, most)
    strips, maps = [charts.Strip("", [charts.Tile(explanation.pixels[index])])], _maps(explanation, index)
    strips += [
        _strip(f"layer {n + 1}", model, [(index, maps[n, head]) for head in heads], float(tops[n]), heads)
        for n in layers
    ]
    example = explanation.about.shown[index]
    caption = f"what {explanation.about.attention_of} attends to in {example.name}: {sentence(explanation, example)}."
    if len(layers) < spec.depth or len(heads) < spec.heads:
        caption += f" Shown are {len(layers)} of {spec.depth} layers and {len(heads)} of {spec.heads} heads."
    alt = f"attention maps of {plural(len(layers), 'layer')} and {plural(len(heads), 'head')} over {example.name}"
    return model.picture(name, charts.Tiles(strips, len(heads), SHARE), alt, caption)


def _strip(
    title: str, model: ShownModel, maps: Sequence[tuple[int, charts.Numbers]], top: float, heads: Sequence[int] = ()
) -> charts.Strip:
    """Maps over some images, under a title with the end of their scale."""
    pixels, grid = model.explanation.pixels, model.explanation.about.model.grid
    titles: list[Sequence[str]] = [[f"head {head + 1}"] for head in heads] or [[]] * len(maps)
    tiles = [
        charts.Tile(pixels[index], of, values.reshape(grid)) for (index, values), of in zip(maps, titles, strict=True)
    ]
    return charts.Strip(title, tiles, top, f"to {100 * top:.{0 if top >= 0.0995 else 1}f} %")


def _distances(models: Sequence[ShownModel]) -> list[charts.Picture]:
    """How far heads look: all models in one chart, so that they have one scale."""
    having = [(model, of) for model in models if (of := reach(model.explanation)) is not None]
    if not having:
        return []
    levels = {f"uniform attention: {of.uniform:.1f}": of.uniform for _, of in having}
    values = [(model.name, model.explanation.distances) for model, _ in having]
    rows = [(name, float(layer), float(value)) for name, of_layers in values if of_layers is not None
            for layer, heads in enumerate(of_layers, 1) for value in heads]  # fmt: skip
    names = [model.name for model, _ in having]
    depth = max(model.explanation.about.model.depth for model, _ in having)
    colouring = charts.Colouring("", names, names) if len(names) > 1 else charts.Colouring()
    chart = charts.Trends("layer", "mean attention distance (pixels)", [*map(float, range(1, depth + 1))],
                          pd.DataFrame(rows, columns=["colour", "at", "value"]), colouring, logarithmic=False,
                          from_zero=True, levels=list(levels.items()))  # fmt: skip
    name = f"{models[0].slug}distances" if len(models) == 1 else "explanations-distances"
    alt = "mean attention distance of every head by layer, pixels"
    return [charts.Picture(name, chart, alt, explanation_text.heads(models))]


def _examples(models: Sequence[ShownModel], read: str) -> list[PictureGroup]:
    """Some images by outcome, what models say of them, and where they look, if that is known."""
    groups = list[PictureGroup]()
    for group in chosen(models):
        pairs = [(model, list(indices)) for model, indices in zip(models, group.indices, strict=True) if indices]
        rows = [
            [
                np.asarray(of[indices])
                for of in (model.explanation.last_layer, model.explanation.rollouts)
                if of is not None
            ]
            for model, indices in pairs
        ]
        tops = _tops([(model, np.array([of.max() for of in row])) for (model, _), row in zip(pairs, rows, strict=True)])
        pictures = [_example_picture(model, indices, group.outcome, row, tops)
                    for (model, indices), row in zip(pairs, rows, strict=True)]  # fmt: skip
        groups.append(PictureGroup(_titled(models, group, "" if groups else read), pictures))
    return groups


def _example_picture(
    model: ShownModel, indices: Sequence[int], outcome: Outcome, rows: Sequence[charts.Numbers], tops: charts.Numbers
) -> charts.Picture:
    explanation = model.explanation
    examples, classes = [explanation.about.shown[index] for index in indices], explanation.about.classes
    titles = [[classes[each.predicted], f"p = {each.probability:.2f}"] for each in examples]
    if outcome in ("differing", "wrong"):  # a third line for every model, so that rows are level
        titles = [[*title, "" if each.label in (None, each.predicted) else f"({classes[each.label]})"]
                  for title, each in zip(titles, examples, strict=True)]  # fmt: skip
    tiles = [charts.Tile(explanation.pixels[index], title) for index, title in zip(indices, titles, strict=True)]
    strips = [charts.Strip("", tiles)]
    for title, values, top in zip(("last layer, mean over heads", "attention rollout"), rows, tops, strict=False):
        strips.append(_strip(title, model, [*zip(indices, values, strict=True)], float(top)))
    what = f"images {WORDS[outcome]}: {'; '.join(sentence(explanation, each) for each in examples)}"
    alt = f"what {explanation.about.attention_of} looks at in {what}" if rows else what
    whose = f" Attention is that of {explanation.about.attention_of}." if rows else ""
    caption = f"{WORDS[outcome]}: {', '.join(each.name for each in examples)}.{whose}"
    return model.picture(
        f"examples-{outcome}", charts.Tiles(strips, IMAGES_A_LINE, SHARE if rows else ""), alt, caption
    )


def _confusion(model: ShownModel, counts: Array) -> charts.Picture:
    names = model.explanation.about.classes
    chart = charts.Heat(counts, "share of the true class (%)", "true class", "predicted class", names, shares=True)
    wrong = counts - np.diag(np.diag(counts))
    label, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    caption = f"{model.explanation.about.images}."
    if wrong.max() > 1:
        caption += f" Most often, {names[label]} is taken for {names[predicted]} ({wrong[label, predicted]:,} times)."
    return model.picture("confusion", chart, f"confusion matrix of {len(names)} classes", caption)
