#!/usr/bin/env python3
"""The built-in networks in PyTorch at its best CPU settings: milliseconds of a step as JSON.

Networks, batch, optimizer and loss are those of models/; the data is random. Settings: channels_last,
the fused (else foreach) Adam, gradients set to None, two threads unless --threads says otherwise;
--mode picks eager float32, eager bfloat16 autocast, or torch.compile.
"""
import torch
import torch.nn.functional as F
from torch import nn

from measurement import median_ms, parse_options, print_result


class MnistCnn(nn.Module):
    def __init__(self, image):
        super().__init__()
        height, width, channels = image
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        pooled = [((extent - 2) // 2 - 2) // 2 for extent in (height, width)]
        self.dense1 = nn.Linear(64 * pooled[0] * pooled[1], 128)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense2(F.relu(self.dense1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self, image):
        super().__init__()
        self.dense1 = nn.Linear(image[0] * image[1] * image[2], 256)
        self.dense2 = nn.Linear(256, 256)
        self.dense3 = nn.Linear(256, 10)

    def forward(self, x):
        return self.dense3(F.relu(self.dense2(F.relu(self.dense1(x.flatten(1))))))


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False),
                                          nn.BatchNorm2d(filters))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self, image):
        super().__init__()
        self.conv = nn.Conv2d(image[2], 16, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        blocks = []
        channels = 16
        for filters in (16, 32, 64):
            for i in range(3):
                blocks.append(Block(channels, filters, 2 if i == 0 and filters > 16 else 1))
                channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.dense = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.conv(x))))
        return self.dense(x.mean((2, 3)))


class Vgg8(nn.Module):
    def __init__(self, image):
        super().__init__()
        layers = []
        channels = image[2]
        for filters in (64, 128, 256):
            for _ in range(2):
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.dense1 = nn.Linear(256 * (image[0] // 8) * (image[1] // 8), 256)
        self.dense2 = nn.Linear(256, 10)

    def forward(self, x):
        return self.dense2(F.relu(self.dense1(self.features(x).flatten(1))))


MODELS = {"mnist_cnn": MnistCnn, "mlp": Mlp, "resnet20": ResNet20, "vgg8": Vgg8}


def make_optimizer(model):
    try:
        return torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    except (RuntimeError, TypeError):  # releases without a fused CPU Adam
        return torch.optim.Adam(model.parameters(), 1e-3, foreach=True)


def main():
    options = parse_options(__doc__, MODELS, ["float32", "bfloat16", "compile"])
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    image = options.image
    model = MODELS[options.model](image).to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model)
    forward = torch.compile(model) if options.mode == "compile" else model
    images = torch.rand(options.batch_size, image[2], image[0], image[1])
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.batch_size,))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=options.mode == "bfloat16")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()

    def predict():
        with torch.inference_mode(), autocast:
            forward(images)

    train_ms = median_ms(step, options.steps)
    model.eval()
    print_result(f"pytorch {torch.__version__} {options.mode}", train_ms,
                 median_ms(predict, options.steps))


if __name__ == "__main__":
    main()
