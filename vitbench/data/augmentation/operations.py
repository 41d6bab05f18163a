"""Operations on images: each image with its own strength, all of a batch in a few kernels.

An operation takes pixels (B, C, height, width) uint8 and parameters (B, p) float32, and gives pixels of the same shape.
Further columns of the parameters have no part in it.
Each is the function of the same name in torchvision.transforms.functional, for uint8 tensors, image by image.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

GREY_SHARES = (0.2989, 0.587, 0.114)  # Of red, green and blue in a shade of grey, as in torchvision


def affine(pixels: Tensor, inverse: Tensor) -> Tensor:
    """Each image under its own affine map, nearest pixel, zeros beyond the edge.

    Args:
        pixels: (B, C, height, width) uint8.
        inverse: (B, 6), rows of the map from places in the result to places in the image; pixels, from its centre.
    """
    _, _, height, width = pixels.shape
    across = torch.linspace(-width * 0.5 + 0.5, width * 0.5 - 0.5, width, device=pixels.device)
    down = torch.linspace(-height * 0.5 + 0.5, height * 0.5 - 0.5, height, device=pixels.device)
    places = torch.stack(
        [*torch.meshgrid(across, down, indexing="xy"), torch.ones_like(pixels[0, 0], dtype=across.dtype)]
    )
    to_x, to_y = inverse.view(-1, 2, 3).unbind(1)
    # No tensor is made of the two sizes here: to copy it, the host would wait for all that a GPU has to do before.
    grid = places.flatten(1).T @ torch.stack((to_x / (0.5 * width), to_y / (0.5 * height)), dim=1).transpose(1, 2)
    moved = F.grid_sample(pixels.float(), grid.view(-1, height, width, 2), mode="nearest", align_corners=False)
    return moved.round().to(torch.uint8)


def brightness(pixels: Tensor, shares: Tensor) -> Tensor:
    """Blended with black; ``shares`` (B, 2): of the image, and of what it is blended with."""
    return _blend(pixels, torch.zeros_like(pixels), shares)


def colour(pixels: Tensor, shares: Tensor) -> Tensor:
    """Blended with its own shades of grey."""
    return _blend(pixels, _grey(pixels), shares)


def contrast(pixels: Tensor, shares: Tensor) -> Tensor:
    """Blended with the mean of its shades of grey."""
    return _blend(pixels, _grey(pixels).float().mean(dim=(-3, -2, -1), keepdim=True), shares)


def sharpness(pixels: Tensor, shares: Tensor) -> Tensor:
    """Blended with itself smoothed, its edge left as it is."""
    channels = pixels.shape[1]
    kernel = torch.ones(3, 3, device=pixels.device)
    kernel[1, 1] = 5.0
    kernel = (kernel / kernel.sum()).expand(channels, 1, 3, 3)
    smooth = pixels.clone()
    smooth[..., 1:-1, 1:-1] = F.conv2d(pixels.float(), kernel, groups=channels).round().to(torch.uint8)
    return _blend(pixels, smooth, shares)


def posterize(pixels: Tensor, bits: Tensor) -> Tensor:
    """The highest ``bits`` (B, 1) of each value, the others zero."""
    mask = (256 - torch.exp2(8 - bits)).to(torch.uint8)
    return pixels & mask[:, :1, None, None]


def solarize(pixels: Tensor, threshold: Tensor) -> Tensor:
    """Values from ``threshold`` (B, 1) on are inverted."""
    return torch.where(pixels >= threshold[:, :1, None, None], 255 - pixels, pixels)


def autocontrast(pixels: Tensor, _: Tensor) -> Tensor:
    """Each channel stretched to all values from 0 to 255; a channel of one value is left as it is."""
    low = pixels.amin(dim=(-2, -1), keepdim=True).float()
    high = pixels.amax(dim=(-2, -1), keepdim=True).float()
    flat = high == low
    stretched = (pixels - torch.where(flat, 0.0, low)) * torch.where(flat, 1.0, 255.0 / (high - low))
    return stretched.clamp(0, 255).to(torch.uint8)


def equalize(pixels: Tensor, _: Tensor) -> Tensor:
    """Each channel's histogram as flat as its values allow."""
    values = pixels.flatten(2).long()
    counts = torch.zeros(*values.shape[:2], 256, dtype=torch.int64, device=pixels.device)
    counts.scatter_add_(2, values, torch.ones_like(values))
    brightest = counts.gather(2, values.amax(dim=2, keepdim=True))
    step = (values.shape[2] - brightest) // 255
    table = (counts.cumsum(dim=2) + step // 2) // step.clamp_min(1)
    table = F.pad(table, (1, -1)).clamp(0, 255)
    return torch.where(step == 0, values, table.gather(2, values)).to(torch.uint8).view_as(pixels)


def _grey(pixels: Tensor) -> Tensor:
    """(B, 3, height, width) → (B, 1, height, width), uint8."""
    red, green, blue = (share * channel for share, channel in zip(GREY_SHARES, pixels.unbind(1), strict=True))
    return (red + green + blue).to(torch.uint8).unsqueeze(1)


def _blend(pixels: Tensor, other: Tensor, shares: Tensor) -> Tensor:
    share, other_share = shares[:, :2, None, None, None].unbind(1)
    return (share * pixels + other_share * other).clamp(0, 255).to(torch.uint8)
