#include "tests/support/op_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "src/ir/graph.h"
#include "src/passes/passes.h"
#include "src/plan/plan.h"
#include "src/runtime/executor.h"

namespace demi::testing {
namespace {

DType compute_dtype(const std::vector<TensorType>& inputs, const RunOptions& options) {
  if (options.compute_dtype) return *options.compute_dtype;
  for (const TensorType& input : inputs) {
    if (is_floating(input.dtype)) return input.dtype;
  }
  return DType::kFloat32;
}

std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) types.push_back({tensor.shape(), tensor.dtype()});
  return types;
}

/// A traced function: its graph, inputs and outputs after autocast.
struct Traced {
  std::shared_ptr<ir::Graph> graph = ir::Graph::create();
  std::vector<SymbolicTensor> inputs, outputs;
};

Traced trace(const GraphFunction& function, const std::vector<TensorType>& inputs,
             const RunOptions& options) {
  Traced traced;
  const ir::TraceScope scope(traced.graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    traced.inputs.push_back(
        traced.graph->tensor(traced.graph->add_input("x" + std::to_string(i), inputs[i])));
  }
  {
    const ir::ScopeGuard guard(*traced.graph,
                               {.layer = "test", .compute_dtype = compute_dtype(inputs, options)});
    traced.outputs = function(traced.inputs);
  }
  passes::autocast(*traced.graph);
  return traced;
}

void optimise(ir::Graph& graph, const Backend& backend, const RunOptions& options) {
  if (options.simplify || options.fuse) passes::simplify(graph);
  if (options.fuse) {
    passes::fuse(graph, backend.capabilities());
    passes::simplify(graph);
  }
  ir::verify(graph);
}

std::vector<Tensor> execute(const std::shared_ptr<ir::Graph>& graph,
                            const std::shared_ptr<Backend>& backend,
                            const std::vector<const Tensor*>& feeds) {
  const auto plan = plan::make_plan(graph, *backend);
  runtime::Executor executor(plan, std::make_shared<runtime::Arena>(backend));
  for (std::size_t i = 0; i < feeds.size(); ++i) executor.set_feed(i, *feeds[i]);
  executor.run();
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < plan->outputs.size(); ++i) results.push_back(executor.output(i));
  return results;
}

double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& weights) {
  double sum = 0;
  std::size_t next = 0;
  for (const Tensor& output : outputs) {
    if (!is_floating(output.dtype())) continue;
    const Tensor& weight = weights[next++];
    for (std::int64_t i = 0; i < output.elements(); ++i) sum += output.at(i) * weight.at(i);
  }
  return sum;
}

}  // namespace

std::vector<std::string> test_devices() {
  static const std::vector<std::string> devices = [] {
    const char* device = std::getenv("DEMI_TEST_DEVICE");
    return std::vector<std::string>{device != nullptr ? device : "cpu"};
  }();
  return devices;
}

std::string test_device() {
  return test_devices().front();
}

std::shared_ptr<Backend> test_backend(const std::string& device, int threads) {
  if (device == "cpu") return make_cpu_backend(threads);
  // Contexts are costly, and tests are many. Never destroyed: the plugin's libraries, opened later,
  // are closed before objects made earlier.
  static auto& backends = *new std::map<std::string, std::shared_ptr<Backend>>;
  std::shared_ptr<Backend>& backend = backends[device];
  if (!backend) backend = make_backend(device, threads);
  return backend;
}

std::vector<Tensor> run(const GraphFunction& function, const std::vector<Tensor>& inputs,
                        const RunOptions& options) {
  Traced traced = trace(function, types_of(inputs), options);
  for (std::size_t i = 0; i < traced.outputs.size(); ++i) {
    traced.graph->add_output("y" + std::to_string(i), traced.outputs[i].value());
  }
  const auto backend = test_backend(options.device, options.threads);
  optimise(*traced.graph, *backend, options);
  std::vector<const Tensor*> feeds;
  for (const Tensor& input : inputs) feeds.push_back(&input);
  return execute(traced.graph, backend, feeds);
}

Tensor run_one(const std::function<SymbolicTensor(const std::vector<SymbolicTensor>&)>& function,
               const std::vector<Tensor>& inputs, const RunOptions& options) {
  std::vector<Tensor> results =
      run([&](const std::vector<SymbolicTensor>& x) { return std::vector{function(x)}; }, inputs,
          options);
  return std::move(results.front());
}

std::string printed_graph(const GraphFunction& function, const std::vector<TensorType>& inputs,
                          const RunOptions& options) {
  Traced traced = trace(function, inputs, options);
  for (std::size_t i = 0; i < traced.outputs.size(); ++i) {
    traced.graph->add_output("y" + std::to_string(i), traced.outputs[i].value());
  }
  optimise(*traced.graph, *test_backend(options.device, options.threads), options);
  return ir::to_string(*traced.graph);
}

std::vector<Tensor> gradients(const GraphFunction& function, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& weights, const RunOptions& options) {
  Traced traced = trace(function, types_of(inputs), options);
  ir::Graph& graph = *traced.graph;
  std::vector<passes::Seed> seeds;
  std::vector<const Tensor*> feeds;
  for (const Tensor& input : inputs) feeds.push_back(&input);
  for (const SymbolicTensor& output : traced.outputs) {
    if (!is_floating(output.dtype())) continue;
    const Tensor& weight = weights.at(seeds.size());
    const ir::ValueId seed =
        graph.add_input("seed" + std::to_string(seeds.size()), {weight.shape(), weight.dtype()});
    seeds.push_back({output, graph.tensor(seed)});
    feeds.push_back(&weight);
  }
  std::vector<SymbolicTensor> targets;
  for (const SymbolicTensor& input : traced.inputs) {
    if (is_floating(input.dtype())) targets.push_back(input);
  }
  const std::vector<SymbolicTensor> results = passes::differentiate(graph, seeds, targets);
  for (const SymbolicTensor& result : results) {
    if (result) graph.add_output("gradient", result.value());
  }
  const auto backend = test_backend(options.device, options.threads);
  optimise(graph, *backend, options);
  std::vector<Tensor> computed = execute(traced.graph, backend, feeds);
  std::vector<Tensor> by_input;
  std::size_t next_result = 0, next_computed = 0;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype())) {
      by_input.emplace_back();
    } else if (results[next_result++]) {
      by_input.push_back(std::move(computed[next_computed++]));
    } else {
      by_input.push_back(Tensor(input.shape(), input.dtype()));
    }
  }
  return by_input;
}

void expect_gradients(const GraphFunction& function, const std::vector<Tensor>& inputs,
                      double tolerance, const RunOptions& options) {
  const std::vector<Tensor> outputs = run(function, inputs, options);
  std::vector<Tensor> weights;
  for (const Tensor& output : outputs) {
    if (!is_floating(output.dtype())) continue;
    weights.push_back(random_tensor(output.shape(), output.dtype(), 77 + weights.size()));
  }
  std::vector<Tensor> probe;
  for (const Tensor& input : inputs) probe.push_back(input.clone());
  for (const std::string& device : test_devices()) {
    RunOptions here = options;
    here.device = device;
    const std::vector<Tensor> computed = gradients(function, inputs, weights, here);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype() != DType::kFloat64) continue;
      std::vector<double> numeric;
      double largest = 1e-3;
      for (std::int64_t e = 0; e < inputs[i].elements(); ++e) {
        double& element = probe[i].data<double>()[static_cast<std::size_t>(e)];
        const double value = element, step = 1e-5 * std::max(1.0, std::abs(value));
        element = value + step;
        const double above = weighted_sum(run(function, probe, options), weights);
        element = value - step;
        const double below = weighted_sum(run(function, probe, options), weights);
        element = value;
        numeric.push_back((above - below) / (2 * step));
        largest = std::max(largest, std::abs(numeric.back()));
      }
      expect_close(computed[i], numeric, tolerance * largest, 1.0,
                   device + ": gradient of input " + std::to_string(i));
    }
  }
}

}  // namespace demi::testing
