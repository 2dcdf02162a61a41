// What the runs of several policies say about each other.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace demi::benchmarks {

/// A summary of runs as models::to_json gives them: per policy the mean and the deviation over
/// seeds of each number, and for all but the first policy the ratio of means to the first ("ratio")
/// and the paired difference in test accuracy with its 95 % confidence interval ("difference").
/// `policies` are in the order of the table; each has a run for every seed.
[[nodiscard]] nlohmann::json summarize_runs(const nlohmann::json& runs,
                                            const std::vector<std::string>& policies);

/// The cells of the table, the first row and column being titles; `policies` as below.
[[nodiscard]] std::vector<std::vector<std::string>> table_rows(
    const nlohmann::json& summary, const std::vector<std::string>& policies);

/// The summary as a table, a column for each policy and, beside all but the first, its ratio to it.
[[nodiscard]] std::string format_table(const nlohmann::json& summary,
                                       const std::vector<std::string>& policies);

}  // namespace demi::benchmarks
