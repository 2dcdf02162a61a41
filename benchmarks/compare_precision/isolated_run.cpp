#include "benchmarks/compare_precision/isolated_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

namespace demi::benchmarks {
namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// One end of a pipe.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void close() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

  void write_all(const std::string& text) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::write(value_, text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR) throw_errno("writing results");
      if (count > 0) done += static_cast<std::size_t>(count);
    }
  }

  [[nodiscard]] std::string read_all() const {
    std::string text;
    std::array<char, 4096> block;
    while (true) {
      const ssize_t count = ::read(value_, block.data(), block.size());
      if (count == 0) return text;
      if (count < 0 && errno != EINTR) throw_errno("reading results");
      if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  int value_;
};

/// Runs in the child; never returns.
[[noreturn]] void run_child(const Descriptor& to_parent, const models::RunOptions& options,
                            const Dataset& train, const Dataset& test) {
  nlohmann::json answer;
  try {
    answer = models::to_json(models::run_training(options, train, test));
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  try {
    to_parent.write_all(answer.dump());
  } catch (const std::exception&) {
    _exit(1);
  }
  std::fflush(stdout);
  // Not exit(): what the parent has registered to run at its end must not run here.
  _exit(0);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

nlohmann::json isolated_run(models::RunOptions options, const Dataset& train, const Dataset& test) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw_errno("pipe");
  Descriptor from_child(ends[0]);
  Descriptor to_parent(ends[1]);
  std::fflush(stdout);
  options.started = models::Clock::now();
  const pid_t child = fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) {
    from_child.close();
    run_child(to_parent, options, train, test);
  }
  to_parent.close();
  const std::string text = from_child.read_all();
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw_errno("waitpid");
  }
  const std::string run = options.policy + ", seed " + std::to_string(options.seed);
  if (text.empty())
    throw std::runtime_error("the run of " + run + " " + describe_end(status) + ".");
  nlohmann::json answer = nlohmann::json::parse(text);
  if (answer.contains("error")) {
    throw std::runtime_error(run + ": " + answer["error"].get<std::string>());
  }
  return answer;
}

}  // namespace demi::benchmarks
