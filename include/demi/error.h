// The exceptions demi throws.
//
// User mistakes (wrong shape, unknown name, bad file) are std::invalid_argument, or
// std::runtime_error where the outside world is at fault (I/O). Every message begins with the
// operation in brackets and shows what was expected and what came:
//   [conv2d] expected a 4-D input [N, H, W, C]. Received: [32, 784].
#pragma once

#include <stdexcept>
#include <string>

namespace demi {

/// A device (GPU, driver, library) is missing or failed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An allocation did not fit. The message gives the bytes asked for and free, and what holds the
/// rest.
class OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// Training cannot go on: non-finite loss, or too many skipped steps in a row.
class TrainingDiverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken promise inside demi: always a bug in demi, never in the caller's input.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace demi
