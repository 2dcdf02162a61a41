// Trainer's data sets on the device.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <demi/error.h>

#include "kernels/backend.h"
#include "src/training/step_specs.h"
#include "src/training/trainer.h"

namespace demi {
namespace {

using Array = std::shared_ptr<VariableState>;

using internal::DataSource;
using Key = std::pair<const Tensor*, std::string>;

Key key_of(const DataSource& source) {
  return {source.tensor, source.type.to_string()};
}

std::size_t distinct_bytes(const std::map<StepMode, std::vector<DataSource>>& sources) {
  std::map<Key, std::size_t> bytes;
  for (const auto& [mode, list] : sources) {
    for (const DataSource& source : list) bytes[key_of(source)] = source.type.bytes();
  }
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0},
                         [](std::size_t sum, const auto& entry) { return sum + entry.second; });
}

std::vector<DataSource> sources_of(const Dataset& data, const StepSpec& spec) {
  std::vector<DataSource> sources;
  const auto add = [&sources](const Tensor& tensor, const FeedSpec& feed) {
    const Shape shape = feed.type.shape.without_front().with_front(tensor.shape()[0]);
    sources.push_back({&tensor, {shape, feed.type.dtype}});
  };
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) add(data.input(i), spec.inputs[i]);
  for (std::size_t i = 0; i < spec.targets.size(); ++i) add(data.target(i), spec.targets[i]);
  return sources;
}

/// Takes an array of that type out of `old`, so that the steps that read it stay of use, or makes
/// one.
Array take_or_make(std::vector<Array>& old, const TensorType& type, Backend& backend) {
  const auto found =
      std::find_if(old.begin(), old.end(), [&](const Array& array) { return array->type == type; });
  if (found != old.end()) {
    Array array = *found;
    old.erase(found);
    return array;
  }
  auto array = std::make_shared<VariableState>();
  array->name = "data";
  array->type = type;
  array->role = VariableRole::kData;
  array->trainable = false;
  array->autocast = false;
  array->storage = backend.allocate(type.bytes(), "data sets");
  return array;
}

bool reads_any_of(const StepSpec& spec, const std::vector<Array>& arrays) {
  const auto reads = [&](const FeedSpec& feed) {
    return std::find(arrays.begin(), arrays.end(), feed.array) != arrays.end();
  };
  return std::any_of(spec.inputs.begin(), spec.inputs.end(), reads) ||
         std::any_of(spec.targets.begin(), spec.targets.end(), reads);
}

}  // namespace

void Trainer::keep_on_device(const Dataset& training, const Dataset& validation,
                             const std::string& where) {
  std::map<StepMode, std::vector<DataSource>> sources;
  const auto add = [&](StepMode mode, const Dataset& data, const std::string& what) {
    if (data.empty()) return;
    sources[mode] = sources_of(
        data, internal::make_step_spec(model_, this->training(), mode, data, 1, seed_, what));
  };
  add(StepMode::kTrain, training, where);
  add(StepMode::kEvaluate, validation, where + ", validation data");

  std::vector<Array> old = drop_device_data();
  std::size_t room = options_.data_on_device ? arena_->backend().room_for_data() : 0;
  if (room > 0) {
    for (const Array& array : old) room += array->type.bytes();
  }
  try {
    if (distinct_bytes(sources) <= room) copy_to_device(sources, old);
  } catch (const OutOfMemory&) {
    // Not in one piece; the host has them too.
    for (const Array& array : drop_device_data()) old.push_back(array);
  }
  drop_programs_that_read(old);
}

void Trainer::copy_to_device(const std::map<StepMode, std::vector<internal::DataSource>>& sources,
                             std::vector<std::shared_ptr<VariableState>>& old) {
  std::map<Key, Array> copied;  // parts of one data set share its arrays
  for (const auto& [mode, list] : sources) {
    for (const DataSource& source : list) {
      Array& array = copied[key_of(source)];
      if (array == nullptr) {
        array = take_or_make(old, source.type, arena_->backend());
        array->storage->write(source.tensor->raw(), 0, source.type.bytes());
      }
      arrays_[mode].push_back(array);
    }
  }
}

std::vector<std::shared_ptr<VariableState>> Trainer::drop_device_data() {
  std::set<Array> kept;
  for (const auto& [mode, arrays] : arrays_) kept.insert(arrays.begin(), arrays.end());
  arrays_.clear();
  return {kept.begin(), kept.end()};
}

void Trainer::drop_programs_that_read(const std::vector<std::shared_ptr<VariableState>>& arrays) {
  std::erase_if(programs_,
                [&](const auto& program) { return reads_any_of(program->spec(), arrays); });
}

void Trainer::take_from_device(StepSpec& spec) const {
  const auto found = arrays_.find(spec.mode);
  if (found == arrays_.end()) return;
  std::size_t i = 0;
  for (FeedSpec& feed : spec.inputs) feed.array = found->second.at(i++);
  for (FeedSpec& feed : spec.targets) feed.array = found->second.at(i++);
}

std::shared_ptr<Program> Trainer::compile_in_room(StepSpec spec, const Dataset& data,
                                                  const std::string& where) {
  try {
    return compile(spec, data, where);
  } catch (const OutOfMemory&) {
    if (arrays_.empty()) throw;
  }
  drop_programs_that_read(drop_device_data());
  for (FeedSpec& feed : spec.inputs) feed.array = nullptr;
  for (FeedSpec& feed : spec.targets) feed.array = nullptr;
  return compile(spec, data, where);
}

}  // namespace demi
