// The kind `ops`: single operators of real PyTorch against the CPU device's kernels and the
// learning-rate schedules.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/recordings/ops_case.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Check = void (*)(OpsCase& c);
const std::vector<std::pair<std::string, Check>> checks{
    {"layer_norm", check_layer_norm},
    {"rms_norm", check_rms_norm},
    {"gelu_tanh", check_gelu_tanh},
    {"swiglu", check_swiglu},
    {"rope", check_rope},
    {"causal_attention", check_causal_attention},
    {"cross_entropy", check_cross_entropy},
    {"embedding", check_embedding},
    {"adamw", check_adamw},
    {"sgd", check_sgd},
    {"clip_grad_norm", check_clip_grad_norm},
    {"schedule", check_schedule}};

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::string& operation : recorded_names(folder, {"cases"}))
    for (const auto& entry : recorded_json(folder, operation))
      names.push_back(operation + "/" + entry.at("name").get<std::string>());
  return names;
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  OpsCase c(folder, name, options);
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const auto& operation) {
    return operation.first == c.operation();
  });
  if (found == checks.end())
    return {.difference = "no kernel for " + c.operation(), .worst_share = {}, .worst = {}};
  found->second(c);
  return c.outcome();
}

}  // namespace

Kind ops_kind() {
  return {.name = "ops",
          .fields = {"y",     "dx",       "dweight",  "dbias",   "dgate", "dup",     "cos", "sin",
                     "q_out", "dq",       "k_out",    "dk",      "dv",    "p",       "m",   "v",
                     "loss",  "inv_freq", "row_loss", "dlogits", "norm",  "clipped", "lr"},
          .cases = cases,
          .check = check};
}

}  // namespace shardscope::recordings
