// The page that --html asks for.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace demi::benchmarks {

/// A comparison as one self-contained HTML page, which loads nothing from anywhere.
/// `results` holds "title", "runs" (as models::to_json gives them), "summary" (as summarize_runs),
/// and, by policy, "plans" (as plan_to_json) and "precision" (as precision_to_json).
[[nodiscard]] std::string html_report(const nlohmann::json& results,
                                      const std::vector<std::string>& policies);

}  // namespace demi::benchmarks
