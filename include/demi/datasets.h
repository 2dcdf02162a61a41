// Well-known data sets, read from files in the IDX format (plain or gzip).
#pragma once

#include <filesystem>
#include <utility>

#include <demi/dataset.h>

namespace demi::datasets {

/// {train, test}: 60,000 and 10,000 images of handwritten digits, uint8 [n, 28, 28, 1] rescaled to
/// [0, 1], with uint8 labels [n] in [0, 10).
///
/// Looks for train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, each with or without .gz, in `folder` if one is given; otherwise in the
/// environment variable DEMI_DATA_DIR, there in the sub-folder of the data set's name first. Throws
/// std::runtime_error that names every place looked at, or what is wrong with a file.
[[nodiscard]] std::pair<Dataset, Dataset> mnist(const std::filesystem::path& folder = {});

/// {train, test}: the same for 28 × 28 images of ten kinds of clothing; looks at last in
/// /usr/share/datasets/fashion-mnist, where Debian's package dataset-fashion-mnist puts it.
[[nodiscard]] std::pair<Dataset, Dataset> fashion_mnist(const std::filesystem::path& folder = {});

}  // namespace demi::datasets
