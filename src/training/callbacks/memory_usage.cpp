#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <demi/callbacks.h>
#include <demi/model.h>

#include "src/core/check.h"
#include "src/runtime/memory_stats.h"
#include "src/training/memory/format.h"
#include "src/training/model_impl.h"
#include "src/training/trainer.h"

namespace demi {

Logs MemoryRecord::scalars() const {
  Logs scalars;
  const auto set = [&scalars](const char* name, std::size_t bytes) {
    scalars.set(std::string("memory/") + name, static_cast<double>(bytes));
  };
  set("planned", stats.planned);
  set("in_use", stats.in_use);
  set("peak", stats.peak);
  set("arena_planned", stats.arena_planned);
  set("arena_peak", stats.arena_peak);
  set("reserved", stats.reserved);
  if (stats.process > 0) set("process", stats.process);
  set("device_used", stats.device_used);
  set("device_free", stats.device_free);
  set("device_total", stats.device_total);
  return scalars;
}

MemoryUsage::MemoryUsage(MemoryUsageOptions options) : options_(std::move(options)) {
  if (options_.every_batches < 0) {
    internal::fail_argument(
        "memory_usage",
        fmt::format("expected every_batches >= 0. Received: {}.", options_.every_batches));
  }
}

void MemoryUsage::open() {
  if (options_.filename.empty() || file_) return;
  file_ = std::make_shared<std::ofstream>(options_.filename, std::ios::trunc);
  if (!*file_) {
    throw std::runtime_error(fmt::format("[memory_usage] cannot open {} for writing: {}",
                                         options_.filename.string(),
                                         std::generic_category().message(errno)));
  }
  *file_ << "stage,epoch,step,planned,in_use,peak,arena_planned,arena_peak,reserved,process,"
            "device_used,device_free,device_total\n";
}

void MemoryUsage::look(const std::string& stage) {
  open();
  MemoryRecord record{.stage = stage, .epoch = epoch_, .step = step_, .stats = {}};
  record.stats = runtime::memory_stats(model().impl().trainer->arena()->backend());
  const memory::Stats& stats = record.stats;
  if (file_) {
    *file_ << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", stage, epoch_, step_,
                          stats.planned, stats.in_use, stats.peak, stats.arena_planned,
                          stats.arena_peak, stats.reserved, stats.process, stats.device_used,
                          stats.device_free, stats.device_total)
           << std::flush;
    if (!*file_) {
      throw std::runtime_error(
          fmt::format("[memory_usage] cannot write to {}", options_.filename.string()));
    }
  }
  if (options_.verbose) {
    using internal::format_bytes;
    fmt::print("memory of {}, {}: planned {}, in use {}, arena {} of {}, reserved {}, process {}\n",
               stats.device, stage, format_bytes(stats.planned), format_bytes(stats.in_use),
               format_bytes(stats.arena_peak), format_bytes(stats.arena_planned),
               format_bytes(stats.reserved),
               stats.process > 0 ? format_bytes(stats.process) : stats.process_source);
  }
  if (options_.on_record) options_.on_record(record);
  records_.push_back(std::move(record));
}

void MemoryUsage::on_train_begin() {
  file_.reset();
  step_ = status().step;
  batches_ = 0;
  look("compiled");
}

void MemoryUsage::on_epoch_begin(int epoch) {
  epoch_ = epoch;
}

void MemoryUsage::on_train_batch_end(std::int64_t /*batch*/, const BatchLogs& /*logs*/) {
  ++step_;
  ++batches_;
  if (batches_ == 1) {
    look("first step");
  } else if (options_.every_batches > 0 && batches_ % options_.every_batches == 0) {
    look("batch");
  }
}

void MemoryUsage::on_test_end(const Logs& /*logs*/) {
  look("evaluated");
}

void MemoryUsage::on_epoch_end(int epoch, Logs& /*logs*/) {
  epoch_ = epoch;
  look("epoch");
}

void MemoryUsage::on_train_end(const Logs& /*logs*/) {
  look("end");
  file_.reset();
}

}  // namespace demi
