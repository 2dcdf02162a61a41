#include <demi/dataset.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/core/check.h"
#include "src/training/dataset/sample_order.h"

namespace demi {
namespace {

std::vector<std::shared_ptr<const Tensor>> own(std::vector<Tensor> values) {
  std::vector<std::shared_ptr<const Tensor>> columns;
  columns.reserve(values.size());
  for (Tensor& value : values) columns.push_back(std::make_shared<const Tensor>(std::move(value)));
  return columns;
}

std::shared_ptr<const Tensor> borrow(const Tensor& value) {
  return {std::shared_ptr<const Tensor>(), &value};
}

std::string name_of(bool is_target, std::size_t index) {
  return std::string(is_target ? "target " : "input ") + std::to_string(index);
}

}  // namespace

Dataset::Dataset(std::vector<Column> inputs, std::vector<Column> targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)), rescales_(inputs_.size()) {
  if (inputs_.empty())
    internal::fail_argument("dataset", "expected at least one input. Received: 0.");
  for (const bool is_target : {false, true}) {
    const std::vector<Column>& columns = is_target ? targets_ : inputs_;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Shape& shape = columns[i]->shape();
      if (shape.rank() == 0) {
        internal::fail_argument("dataset",
                                "expected arrays whose first dimension counts samples. "
                                "Received: a scalar as " +
                                    name_of(is_target, i) + ".");
      }
      if (!is_target && i == 0) size_ = shape[0];
      if (shape[0] != size_) {
        internal::fail_argument(
            "dataset", "expected " + std::to_string(size_) +
                           " samples in every array, as in input 0. Received: " +
                           std::to_string(shape[0]) + " in " + name_of(is_target, i) + ".");
      }
    }
  }
}

Dataset::Dataset(Tensor x) : Dataset(tensors(std::move(x)), {}) {}

Dataset::Dataset(Tensor x, Tensor y) : Dataset(tensors(std::move(x)), tensors(std::move(y))) {}

Dataset::Dataset(std::vector<Tensor> x, std::vector<Tensor> y)
    : Dataset(own(std::move(x)), own(std::move(y))) {}

Dataset Dataset::view(const Tensor& x) {
  return Dataset({borrow(x)}, {});
}

Dataset Dataset::view(const Tensor& x, const Tensor& y) {
  return Dataset(std::vector<Column>{borrow(x)}, std::vector<Column>{borrow(y)});
}

Dataset Dataset::rescaled(double scale, double offset, std::size_t i) const {
  if (i >= inputs_.size()) {
    internal::fail_argument("dataset", "expected an input below " + std::to_string(inputs_.size()) +
                                           ". Received: " + std::to_string(i) + ".");
  }
  Dataset result = *this;
  result.rescales_[i] = {scale, offset};
  return result;
}

Dataset Dataset::take(std::int64_t count) const {
  if (count < 0) {
    internal::fail_argument("dataset.take",
                            "expected a count >= 0. Received: " + std::to_string(count) + ".");
  }
  Dataset result = *this;
  result.size_ = std::min(size_, count);
  return result;
}

Dataset Dataset::skip(std::int64_t count) const {
  if (count < 0) {
    internal::fail_argument("dataset.skip",
                            "expected a count >= 0. Received: " + std::to_string(count) + ".");
  }
  Dataset result = *this;
  const std::int64_t skipped = std::min(size_, count);
  result.first_ += skipped;
  result.size_ -= skipped;
  return result;
}

std::pair<Dataset, Dataset> Dataset::split(double fraction) const {
  if (!(fraction > 0 && fraction < 1)) {
    internal::fail_argument("dataset.split", "expected a fraction between 0 and 1. Received: " +
                                                 std::to_string(fraction) + ".");
  }
  const auto first =
      static_cast<std::int64_t>(std::floor(static_cast<double>(size_) * (1 - fraction)));
  return {take(first), skip(first)};
}

Dataset Dataset::shuffle(std::uint64_t seed) const {
  std::vector<std::int64_t> order = internal::shuffled_order(size_, seed, /*epoch=*/0);
  for (std::int64_t& sample : order) sample = row(sample);
  Dataset result = *this;
  result.first_ = 0;
  result.order_ = std::make_shared<const std::vector<std::int64_t>>(std::move(order));
  return result;
}

}  // namespace demi
