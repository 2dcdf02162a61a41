// The updates of optimizers: one op for all variables of a model.
//
// All computation is in float32 (float64 for float64 variables), whatever the dtypes of gradients
// and variables. Variables, slots, accumulators and averages are overwritten; where `apply` is
// false, nothing is written at all. Lists of tensors have one entry a variable, in the same order,
// and the shapes of an entry agree. Control scalars may be left empty for their defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// What all update rules do to a gradient g and a variable w before the rule itself, in this order:
///   g = g · inverse_scale,  g = g · clip coefficient,  g = clamp(g, ±clip_value),
///   w = w - w · weight_decay · learning_rate.
struct UpdateAttributes {
  bool clipped = false;            ///< there is an input of clip coefficients; set by the ops
  double clip_value = 0;           ///< 0: none
  double weight_decay = 0;         ///< 0: none
  std::vector<bool> decayed = {};  ///< one entry a variable; empty: weight decay is for all
  /// Gradients that lie as [columns, rows], columns being the innermost extent of the variable; one
  /// entry a variable, empty: none. Set by the pass keep_weight_copies, as are the copies: each
  /// adds an input, which is overwritten with what the variable becomes.
  std::vector<bool> transposed_gradients = {};
  struct Copy {
    std::size_t variable = 0;  ///< of which one it is, at most one a variable
    bool transposed = false;   ///< it lies as [columns, rows]
    friend bool operator==(const Copy&, const Copy&) = default;
  };
  std::vector<Copy> copies = {};
  friend bool operator==(const UpdateAttributes&, const UpdateAttributes&) = default;
};
std::string describe(const UpdateAttributes& attributes);

struct UpdateInputs {
  SymbolicTensor learning_rate;  ///< float32 scalar
  SymbolicTensor inverse_scale;  ///< float32 scalar; empty: 1
  SymbolicTensor apply;          ///< bool scalar; empty: true
  SymbolicTensor iterations;     ///< int64 scalar: updates applied before this one
  SymbolicTensor clip;           ///< float32 [1] or [variables], of clip_coefficients; empty: none
  std::vector<SymbolicTensor> variables;           ///< floating
  std::vector<SymbolicTensor> gradients;           ///< floating
  std::vector<std::vector<SymbolicTensor>> slots;  ///< of each kind one entry a variable
};

struct AdamAttributes {
  UpdateAttributes common;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  friend bool operator==(const AdamAttributes&, const AdamAttributes&) = default;
};
std::string describe(const AdamAttributes& attributes);

/// Slots m, v (and the largest v, v̂, with amsgrad), t = iterations + 1:
///   m += (g - m) · (1 - beta_1),  v += (g² - v) · (1 - beta_2),
///   w -= m · learning_rate · sqrt(1 - beta_2^t) / (1 - beta_1^t) / (sqrt(v) + epsilon).
/// Formula: Kingma and Ba, "Adam" (2014), section 2, with "epsilon hat".
/// IR: adam_update(learning_rate, inverse_scale, apply, iterations, [clip], w…, g…, m…, v…, [v̂…],
/// [copies…]).
void adam_update(const UpdateInputs& inputs, AdamAttributes attributes);

struct SgdAttributes {
  UpdateAttributes common;
  double momentum = 0;
  bool nesterov = false;
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
};
std::string describe(const SgdAttributes& attributes);

/// Slot m if momentum is not 0:
///   m = m · momentum - g · learning_rate,  w += nesterov ? m · momentum - g · learning_rate : m.
/// Without: w -= g · learning_rate.
/// IR: sgd_update(learning_rate, inverse_scale, apply, iterations, [clip], w…, g…, [m…],
/// [copies…]).
void sgd_update(const UpdateInputs& inputs, SgdAttributes attributes);

struct ClipAttributes {
  double norm = 1;      ///< the largest one allowed
  bool global = false;  ///< of all gradients together, else of each
  friend bool operator==(const ClipAttributes&, const ClipAttributes&) = default;
};
std::string describe(const ClipAttributes& attributes);

/// min(1, norm / ‖g · inverse_scale‖₂): float32 [variables], or [1] if global. Squares are summed
/// in float64, so that they do not overflow. NaN if the norm is not finite. IR:
/// clip_coefficients(inverse_scale, g…).
[[nodiscard]] SymbolicTensor clip_coefficients(const SymbolicTensor& inverse_scale,
                                               const std::vector<SymbolicTensor>& gradients,
                                               const ClipAttributes& attributes);

/// a + g · inverse_scale, or g · inverse_scale if `position` (int64 scalar) is 0. Returns the new
/// versions of the accumulators. IR: accumulate_gradients(inverse_scale, apply, position, a…, g…).
std::vector<SymbolicTensor> accumulate_gradients(const SymbolicTensor& inverse_scale,
                                                 const SymbolicTensor& apply,
                                                 const SymbolicTensor& position,
                                                 const std::vector<SymbolicTensor>& accumulators,
                                                 const std::vector<SymbolicTensor>& gradients);

struct EmaAttributes {
  double momentum = 0.99;
  std::int64_t overwrite_frequency = 0;  ///< 0: never
  friend bool operator==(const EmaAttributes&, const EmaAttributes&) = default;
};
std::string describe(const EmaAttributes& attributes);

/// average · momentum + w · (1 - momentum), the first time (iterations = 0) w. After every
/// overwrite_frequency-th update w becomes its average. IR: ema_update(apply, iterations, w…,
/// average…).
void ema_update(const SymbolicTensor& apply, const SymbolicTensor& iterations,
                const std::vector<SymbolicTensor>& variables,
                const std::vector<SymbolicTensor>& averages, const EmaAttributes& attributes);

}  // namespace demi::ops
