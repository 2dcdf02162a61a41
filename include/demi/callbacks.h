// Callbacks: code that runs at fixed points of fit and evaluate.
//
// Order of a call to fit:
//   on_train_begin
//     on_epoch_begin(epoch)
//       on_train_batch_begin(batch)  [on_step_skipped(step, scale)]  on_train_batch_end(batch,
//       logs) on_test_begin  on_test_end(logs)                      if there is validation data
//     on_epoch_end(epoch, logs)
//   on_train_end(logs), or on_train_failed(error) if something between has thrown
// Within each point callbacks run in the order in which they were given.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <demi/memory.h>
#include <demi/tensor.h>

namespace demi {

class Dataset;
class Model;

/// Named numbers in the order in which they are shown: "loss", metrics, then "val_…", and of an
/// epoch with loss scaling "loss_scale" and "skipped_steps" (so far, over the life of the model).
class Logs {
 public:
  using Entry = std::pair<std::string, double>;

  /// Overwrites the value of that name or appends it.
  void set(std::string_view name, double value);
  /// Null if there is none of that name.
  [[nodiscard]] const double* find(std::string_view name) const;
  /// Throws std::invalid_argument naming what there is.
  [[nodiscard]] double at(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

/// Logs of the epoch so far, read from the device only when somebody asks: asking waits for the
/// step.
class BatchLogs {
 public:
  explicit BatchLogs(std::function<Logs()> read) : read_(std::move(read)) {}
  [[nodiscard]] const Logs& values() const;

 private:
  std::function<Logs()> read_;
  mutable Logs values_;
  mutable bool is_read_ = false;
};

/// What fit was asked for.
struct TrainingParameters {
  int epochs = 0;
  std::int64_t batch_size = 0;
  std::int64_t samples = 0;          ///< in an epoch
  std::int64_t steps_per_epoch = 0;  ///< batches in an epoch
  bool shuffle = false;
  std::uint64_t seed = 0;  ///< of the order of samples
  int verbose = 0;
};

/// Where training stands, counted over the life of the model.
struct TrainingStatus {
  std::int64_t step = 0;           ///< batches seen
  std::int64_t skipped_steps = 0;  ///< of them without an update, because of non-finite gradients
  double loss_scale = 1;           ///< 1 without loss scaling
};

/// What callbacks share while fit runs. Owned by fit.
struct TrainingControl {
  Model* model = nullptr;
  TrainingParameters parameters;
  std::function<TrainingStatus()> status;
  const Dataset* training_data = nullptr;    ///< null outside of fit
  const Dataset* validation_data = nullptr;  ///< without arrays if there is none
  bool stop = false;
};

/// Base of all callbacks: override what is needed.
class Callback {
 public:
  virtual ~Callback() = default;

  virtual void on_train_begin() {}
  virtual void on_train_end(const Logs& /*logs*/) {}
  /// fit ends with this exception, which it throws on; what is thrown here is lost.
  virtual void on_train_failed(const std::exception& /*error*/) {}
  virtual void on_epoch_begin(int /*epoch*/) {}
  /// `logs` has the averages over the epoch's samples; what is added to it is also seen by the
  /// callbacks that follow and by History.
  virtual void on_epoch_end(int /*epoch*/, Logs& /*logs*/) {}
  /// `batch` counts from 0 in each epoch.
  virtual void on_train_batch_begin(std::int64_t /*batch*/) {}
  virtual void on_train_batch_end(std::int64_t /*batch*/, const BatchLogs& /*logs*/) {}
  virtual void on_test_begin() {}
  virtual void on_test_end(const Logs& /*logs*/) {}
  /// Step number `step` changed no weight because loss or gradients were not finite; `scale` is the
  /// loss scale after that.
  virtual void on_step_skipped(std::int64_t /*step*/, double /*scale*/) {}
  /// The loss is NaN or infinite though steps are not skipped (no loss scaling). Return true to say
  /// that this has been dealt with; otherwise fit throws TrainingDiverged.
  virtual bool on_non_finite_loss(std::int64_t /*step*/) { return false; }

 protected:
  Callback() = default;
  Callback(const Callback&) = default;
  Callback& operator=(const Callback&) = default;

  /// These throw std::invalid_argument outside of fit and evaluate.
  [[nodiscard]] Model& model() const;
  [[nodiscard]] const TrainingParameters& parameters() const;
  [[nodiscard]] TrainingStatus status() const;
  /// All of it: the model, and in fit the data.
  [[nodiscard]] const TrainingControl& control() const;
  /// fit ends after the current batch (asked for in a batch) or epoch.
  void stop_training() const;

 private:
  friend class CallbackList;
  TrainingControl* control_ = nullptr;
};

/// A callback as FitOptions takes it: a shared_ptr, to look at it afterwards, or simply a value.
class CallbackHandle {
 public:
  template <class T>
  requires std::is_base_of_v<Callback, T> CallbackHandle(
      std::shared_ptr<T> callback)  // NOLINT(google-explicit-constructor)
      : callback_(std::move(callback)) {}
  template <class T>
  requires std::is_base_of_v<Callback, std::remove_cvref_t<T>> CallbackHandle(
      T&& callback)  // NOLINT(google-explicit-constructor)
      : callback_(std::make_shared<std::remove_cvref_t<T>>(std::forward<T>(callback))) {}

  [[nodiscard]] const std::shared_ptr<Callback>& get() const { return callback_; }

 private:
  std::shared_ptr<Callback> callback_;
};

/// Calls each of its callbacks in order.
class CallbackList {
 public:
  /// Throws std::invalid_argument for a null callback.
  CallbackList(const std::vector<CallbackHandle>& callbacks, TrainingControl* control);
  ~CallbackList();
  CallbackList(const CallbackList&) = delete;
  CallbackList& operator=(const CallbackList&) = delete;

  void train_begin() const;
  void train_end(const Logs& logs) const;
  void train_failed(const std::exception& error) const noexcept;
  void epoch_begin(int epoch) const;
  void epoch_end(int epoch, Logs& logs) const;
  void train_batch_begin(std::int64_t batch) const;
  void train_batch_end(std::int64_t batch, const BatchLogs& logs) const;
  void test_begin() const;
  void test_end(const Logs& logs) const;
  void step_skipped(std::int64_t step, double scale) const;
  /// Whether any of them deals with it; all are asked.
  [[nodiscard]] bool non_finite_loss(std::int64_t step) const;

 private:
  std::vector<std::shared_ptr<Callback>> callbacks_;
};

/// The values of every epoch; what fit returns.
class History {
 public:
  std::vector<int> epoch;
  /// history["val_accuracy"][i] belongs to epoch[i]; NaN where an epoch did not have the value.
  std::map<std::string, std::vector<double>, std::less<>> history;
  TrainingStatus status;  ///< when fit returned

  void add(int epoch_index, const Logs& logs);
  /// The last value. Throws std::invalid_argument naming what there is.
  [[nodiscard]] double last(std::string_view name) const;
};

/// Which direction of a monitored value is better.
enum class MonitorMode {
  kAuto,  ///< kMax for names that end in "accuracy" or "acc", else kMin
  kMin,
  kMax,
};

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;  ///< a smaller change does not count as an improvement
  int patience = 0;      ///< epochs without improvement after which training stops
  MonitorMode mode = MonitorMode::kAuto;
  double baseline = std::numeric_limits<double>::quiet_NaN();  ///< NaN: none
  bool restore_best_weights = false;
  int start_from_epoch = 0;
  bool verbose = false;
};

/// Stops when the monitored value has not improved for `patience` epochs.
class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options = {});
  void on_train_begin() override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;

  /// The epoch at which it stopped, -1 if it did not.
  [[nodiscard]] int stopped_epoch() const { return stopped_epoch_; }
  [[nodiscard]] int best_epoch() const { return best_epoch_; }
  [[nodiscard]] double best() const { return best_; }

 private:
  EarlyStoppingOptions options_;
  int wait_ = 0;
  int stopped_epoch_ = -1;
  int best_epoch_ = -1;
  double best_ = 0;
  std::shared_ptr<const std::vector<Tensor>> best_weights_;
};

struct ModelCheckpointOptions {
  /// "{epoch}" (counted from 1, "{epoch:03d}" pads with zeros), and the name of any logged value as
  /// in "{val_loss:.2f}", are replaced.
  std::string filepath;
  std::string monitor = "val_loss";
  bool save_best_only = false;
  bool save_weights_only = false;  ///< weights as safetensors, otherwise a training checkpoint
  MonitorMode mode = MonitorMode::kAuto;
  int save_every_epochs = 1;
  bool verbose = false;
};

/// Saves the model at the end of epochs.
class ModelCheckpoint : public Callback {
 public:
  /// Throws std::invalid_argument for an empty path.
  explicit ModelCheckpoint(ModelCheckpointOptions options);
  void on_epoch_end(int epoch, Logs& logs) override;

  /// Where the last file went; empty before.
  [[nodiscard]] const std::filesystem::path& last_saved() const { return last_saved_; }

 private:
  ModelCheckpointOptions options_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  std::filesystem::path last_saved_;
};

struct CSVLoggerOptions {
  std::filesystem::path filename;
  char separator = ',';
  bool append = false;  ///< go on in an existing file, without a second header
};

/// Writes one line per epoch: "epoch", then the logged values in the order of the first epoch.
class CSVLogger : public Callback {
 public:
  explicit CSVLogger(CSVLoggerOptions options);
  /// Throws std::runtime_error if the file cannot be opened.
  void on_train_begin() override;
  /// Throws std::runtime_error if the line cannot be written.
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;

 private:
  CSVLoggerOptions options_;
  std::shared_ptr<std::ofstream> file_;
  std::vector<std::string> keys_;
  bool needs_header_ = true;
};

/// The memory of the model's device at one moment.
struct MemoryRecord {
  std::string stage;  ///< "compiled", "first step", "batch", "epoch", "evaluated" or "end"
  int epoch = 0;
  std::int64_t step = 0;  ///< batches seen over the life of the model
  memory::Stats stats;

  /// "memory/planned", "memory/in_use", … in bytes: the columns of the file and what a TensorBoard
  /// shows. "memory/process" is left out where it is not known.
  [[nodiscard]] Logs scalars() const;
};

struct MemoryUsageOptions {
  std::filesystem::path filename = {};  ///< a CSV file with a line for each record; empty: none
  std::int64_t every_batches = 0;       ///< also look after so many batches; 0: do not
  bool verbose = true;                  ///< print a line for each record
  /// Given each record as it is made.
  std::function<void(const MemoryRecord&)> on_record = nullptr;
};

/// Looks at the memory of the device when everything is compiled, after the first step, after each
/// epoch and evaluation, and at the end. A look does not wait for the device.
class MemoryUsage : public Callback {
 public:
  /// Throws std::invalid_argument if every_batches < 0.
  explicit MemoryUsage(MemoryUsageOptions options = {});
  /// These throw std::runtime_error if the file cannot be opened or written.
  void on_train_begin() override;
  void on_epoch_begin(int epoch) override;
  void on_train_batch_end(std::int64_t batch, const BatchLogs& logs) override;
  void on_test_end(const Logs& logs) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;

  [[nodiscard]] const std::vector<MemoryRecord>& records() const { return records_; }

 private:
  void look(const std::string& stage);
  void open();

  MemoryUsageOptions options_;
  std::vector<MemoryRecord> records_;
  std::shared_ptr<std::ofstream> file_;
  int epoch_ = 0;
  std::int64_t step_ = 0;
  std::int64_t batches_ = 0;  ///< in this fit
};

/// Stops training, without an exception, at a loss that is NaN or infinite.
class TerminateOnNaN : public Callback {
 public:
  bool on_non_finite_loss(std::int64_t step) override;
};

/// Sets the learning rate before each epoch to schedule(epoch, current rate) and logs it as
/// "learning_rate".
class LearningRateScheduler : public Callback {
 public:
  using Schedule = std::function<double(int epoch, double learning_rate)>;
  explicit LearningRateScheduler(Schedule schedule, bool verbose = false);
  /// Throws std::invalid_argument if the schedule gives a rate that is negative or not finite.
  void on_epoch_begin(int epoch) override;
  void on_epoch_end(int epoch, Logs& logs) override;

 private:
  Schedule schedule_;
  bool verbose_;
};

/// Functions for the points that are of interest; others stay empty.
struct LambdaCallbackOptions {
  std::function<void()> on_train_begin = nullptr;
  std::function<void(const Logs&)> on_train_end = nullptr;
  std::function<void(int)> on_epoch_begin = nullptr;
  std::function<void(int, Logs&)> on_epoch_end = nullptr;
  std::function<void(std::int64_t)> on_train_batch_begin = nullptr;
  std::function<void(std::int64_t, const BatchLogs&)> on_train_batch_end = nullptr;
  std::function<void(std::int64_t, double)> on_step_skipped = nullptr;
};

class LambdaCallback : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions options);
  void on_train_begin() override;
  void on_train_end(const Logs& logs) override;
  void on_epoch_begin(int epoch) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_batch_begin(std::int64_t batch) override;
  void on_train_batch_end(std::int64_t batch, const BatchLogs& logs) override;
  void on_step_skipped(std::int64_t step, double scale) override;

 private:
  LambdaCallbackOptions options_;
};

}  // namespace demi
