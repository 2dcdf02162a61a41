// FileSizeLimit: a stand-in for a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace demi::testing {

/// While it lives, no file of this process can grow beyond `bytes`: write() fails, as on a full
/// disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_before_);
    const rlimit limit{bytes, limit_before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &limit_before_);
    std::signal(SIGXFSZ, signal_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  using Handler = void (*)(int);
  Handler signal_before_;
  rlimit limit_before_{};
};

}  // namespace demi::testing
