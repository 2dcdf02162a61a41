// Dataset: samples in memory, as fit, evaluate and predict take them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <demi/tensor.h>

namespace demi {

/// How a stored input becomes a network input: x · scale + offset, computed in float32. Images stay
/// uint8 in memory and on their way to the device; rescale by 1/255 turns them into [0, 1].
struct Rescale {
  double scale = 1;
  double offset = 0;
  friend bool operator==(const Rescale&, const Rescale&) = default;
};

/// Moves tensors into a vector, which an initialiser list cannot: tensors(std::move(a),
/// std::move(b)).
template <class... T>
[[nodiscard]] std::vector<Tensor> tensors(T&&... values) {
  std::vector<Tensor> result;
  result.reserve(sizeof...(T));
  (result.push_back(std::forward<T>(values)), ...);
  return result;
}

/// One or several input arrays and target arrays whose first dimension is the sample. Cheap to
/// copy: copies, and the parts made by take, skip, split and shuffle, share the arrays and differ
/// in which rows they show. Immutable.
class Dataset {
 public:
  /// No samples, no arrays.
  Dataset() = default;
  /// Inputs only, as for predict. Throws std::invalid_argument for a scalar array.
  Dataset(Tensor x);  // NOLINT(google-explicit-constructor)
  /// Throws std::invalid_argument if the arrays differ in the number of samples.
  Dataset(Tensor x, Tensor y);
  Dataset(std::vector<Tensor> x, std::vector<Tensor> y);
  /// Refers to arrays that the caller keeps alive and unchanged.
  [[nodiscard]] static Dataset view(const Tensor& x);
  [[nodiscard]] static Dataset view(const Tensor& x, const Tensor& y);

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] std::size_t target_count() const { return targets_.size(); }

  /// The whole stored arrays; sample i of this data set is their row `row(i)`.
  [[nodiscard]] const Tensor& input(std::size_t i = 0) const { return *inputs_.at(i); }
  [[nodiscard]] const Tensor& target(std::size_t i = 0) const { return *targets_.at(i); }
  [[nodiscard]] std::int64_t row(std::int64_t sample) const {
    return order_ ? (*order_)[static_cast<std::size_t>(first_ + sample)] : first_ + sample;
  }

  /// The same data with input `i` rescaled on its way to the model.
  [[nodiscard]] Dataset rescaled(double scale, double offset = 0, std::size_t i = 0) const;
  [[nodiscard]] Rescale input_rescale(std::size_t i = 0) const { return rescales_.at(i); }

  /// The first `count` samples (all, if there are fewer), or those after them.
  [[nodiscard]] Dataset take(std::int64_t count) const;
  [[nodiscard]] Dataset skip(std::int64_t count) const;
  /// {the first part, the last `fraction` of the samples}, as fit's validation_split divides: the
  /// first part has floor(size · (1 - fraction)). Throws std::invalid_argument unless 0 < fraction
  /// < 1.
  [[nodiscard]] std::pair<Dataset, Dataset> split(double fraction) const;
  /// The samples in a random order that depends on the seed only.
  [[nodiscard]] Dataset shuffle(std::uint64_t seed) const;

 private:
  using Column = std::shared_ptr<const Tensor>;
  Dataset(std::vector<Column> inputs, std::vector<Column> targets);

  std::vector<Column> inputs_;
  std::vector<Column> targets_;
  std::vector<Rescale> rescales_;
  std::shared_ptr<const std::vector<std::int64_t>> order_;  ///< null: rows in stored order
  std::int64_t first_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace demi
