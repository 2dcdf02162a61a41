#include "src/training/dataset/validate.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/core/check.h"
#include "src/core/convert_element.h"
#include "src/core/dispatch.h"

namespace demi::internal {
namespace {

std::int64_t row_elements(const Tensor& array) {
  return array.shape().without_front().elements();
}

/// Calls accept(value) for the elements of each sample; the first sample with one that is not
/// accepted is passed to reject(sample, value).
template <class T, class Accept, class Reject>
void scan_as(const Dataset& data, const Tensor& array, const Accept& accept, const Reject& reject) {
  const std::int64_t width = row_elements(array);
  const std::span<const T> values = array.data<T>();
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    const auto row = values.subspan(static_cast<std::size_t>(data.row(sample) * width),
                                    static_cast<std::size_t>(width));
    for (const T value : row) {
      if (!accept(convert_element<double>(value))) reject(sample, convert_element<double>(value));
    }
  }
}

template <class Accept, class Reject>
void scan(const Dataset& data, const Tensor& array, const Accept& accept, const Reject& reject) {
  dispatch(array.dtype(), [&]<class T> { scan_as<T>(data, array, accept, reject); });
}

void check_finite_array(const Dataset& data, const Tensor& array, const std::string& name,
                        const std::string& where) {
  if (!is_floating(array.dtype())) return;
  scan(
      data, array, [](double value) { return std::isfinite(value); },
      [&](std::int64_t sample, double value) {
        fail_argument(where, "expected finite values. Received: " +
                                 std::string(std::isnan(value) ? "NaN" : "infinity") + " in " +
                                 name + ", sample " + std::to_string(sample) + ".");
      });
}

}  // namespace

void check_not_empty(const Dataset& data, const std::string& where) {
  if (data.empty())
    fail_argument(where, "expected at least one sample. Received: an empty data set.");
}

void check_finite(const Dataset& data, const std::string& where) {
  for (std::size_t i = 0; i < data.input_count(); ++i) {
    check_finite_array(data, data.input(i), "input " + std::to_string(i), where);
  }
  for (std::size_t i = 0; i < data.target_count(); ++i) {
    check_finite_array(data, data.target(i), "target " + std::to_string(i), where);
  }
}

void check_labels(const Dataset& data, std::size_t index, std::int64_t classes,
                  const std::string& where) {
  const Tensor& array = data.target(index);
  const std::string range = "[0, " + std::to_string(classes) + ")";
  if (is_floating(array.dtype())) {
    fail_argument(where, "expected integer labels in " + range +
                             ". Received: " + std::string(to_string(array.dtype())) + " targets.");
  }
  const auto limit = static_cast<double>(classes);
  scan(
      data, array, [limit](double value) { return value >= 0 && value < limit; },
      [&](std::int64_t sample, double value) {
        fail_argument(where,
                      "expected labels in " + range + ", one for each class of the model's " +
                          "output. Received: " + std::to_string(static_cast<std::int64_t>(value)) +
                          " in target " + std::to_string(index) + ", sample " +
                          std::to_string(sample) + ".");
      });
}

}  // namespace demi::internal
