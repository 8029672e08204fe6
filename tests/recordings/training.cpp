// The kind `training`: whole runs of real PyTorch against our trainer, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/model/huggingface.h"
#include "core/model/model_weights.h"
#include "tests/recordings/ops_device.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"
#include "tests/recordings/training_run.h"

namespace shardscope::recordings {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double loss_tolerance = 2e-6;            // relative, every step
constexpr double gradient_norm_tolerance = 2e-5;   // relative, every step
constexpr double learning_rate_tolerance = 1e-12;  // relative: both are double precision
/// The recorded noise is the largest of a few differences between runs; another run lies within a
/// small multiple of it.
constexpr double noise_factor = 2;
/// Where nothing was there to compare with: the largest noise that was seen at all (README).
constexpr double default_noise = 1.9e-5;

/// Collects the comparisons of one case: the largest share of what is allowed, and the first that
/// is over it.
class Verdict {
 public:
  void compare(double got, double expected, double allowed, const std::string& what) {
    const double error = std::abs(got - expected);
    const double share = error == 0 ? 0 : error / allowed;
    if (!(share <= 1) && difference_.empty()) {
      difference_ = fmt::format("{}: {:.9g}, recorded {:.9g}, {:.2g} over {:.2g} allowed", what,
                                got, expected, error, allowed);
    }
    if (share <= worst_share_.value_or(-1)) return;
    worst_share_ = share;
    worst_ = fmt::format("{} differs by {:.2g} of {:.2g} allowed", what, error, allowed);
  }

  void fail(std::string difference) {
    if (difference_.empty()) difference_ = std::move(difference);
  }

  Outcome outcome() const {
    return {.difference = difference_, .worst_share = worst_share_, .worst = worst_};
  }

 private:
  std::string difference_;
  std::optional<double> worst_share_;
  std::string worst_;
};

void compare_steps(const std::vector<double>& got, const Json& recorded, double tolerance,
                   const std::string& what, Verdict& verdict) {
  if (got.size() != recorded.size()) {
    return verdict.fail(
        fmt::format("{}: {} steps, recorded {}", what, got.size(), recorded.size()));
  }
  for (std::size_t step = 0; step < got.size(); ++step) {
    const double expected = recorded[step].get<double>();
    verdict.compare(got[step], expected, tolerance * std::abs(expected),
                    fmt::format("{} at step {}", what, step));
  }
}

/// Elements of a parameter that no training determines: the keys' biases (README, "Key biases are
/// noise").
struct Undetermined {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool contains(std::size_t element) const { return element >= begin && element < end; }
};

Undetermined undetermined(const std::string& name, std::size_t elements) {
  if (name.ends_with("attn.c_attn.bias")) return {elements / 3, 2 * elements / 3};
  if (name.ends_with("k_proj.bias")) return {0, elements};
  return {};
}

/// The sums that the recording keeps of a tensor.
struct Sums {
  double sum = 0, abs_sum = 0, squares = 0, ramp = 0;
};

Sums sums_of(const std::vector<float>& values) {
  Sums sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    sums.sum += x;
    sums.abs_sum += std::abs(x);
    sums.squares += x * x;
    sums.ramp += x * static_cast<double>(i % 101 + 1) / 101;
  }
  return sums;
}

void compare_summary(const std::vector<float>& got, const Json& recorded, double noise,
                     const std::string& name, Verdict& verdict) {
  const Undetermined left_out = undetermined(name, got.size());
  const auto compare_from = [&](std::size_t begin, const char* field) {
    for (std::size_t i = 0; i < recorded.at(field).size(); ++i) {
      if (left_out.contains(begin + i)) continue;
      verdict.compare(got.at(begin + i), recorded.at(field)[i].get<double>(), noise,
                      fmt::format("{}[{}]", name, begin + i));
    }
  };
  compare_from(0, "first4");
  compare_from(got.size() / 2, "mid4");
  if (left_out.begin != left_out.end) return;
  const Sums sums = sums_of(got);
  const auto count = static_cast<double>(got.size());
  const double rounding = 1e-12 * sums.abs_sum;  // of the sums themselves, taken in another order
  const auto compare_sum = [&](double sum, const char* field, double terms) {
    verdict.compare(sum, recorded.at(field).get<double>(), noise * terms + rounding,
                    name + " " + field);
  };
  compare_sum(sums.sum, "sum", count);
  compare_sum(sums.abs_sum, "abs_sum", count);
  compare_sum(sums.ramp, "ramp", count);
  compare_sum(std::sqrt(sums.squares), "l2", std::sqrt(count));
}

void compare_elements(const std::vector<float>& got, const std::vector<float>& expected,
                      double noise, const std::string& name, Verdict& verdict) {
  const Undetermined left_out = undetermined(name, got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!left_out.contains(i))
      verdict.compare(got[i], expected[i], noise, fmt::format("{}[{}]", name, i));
  }
}

/// How far another run may be from a recorded one, relative at every step.
struct Tolerance {
  double loss = loss_tolerance;
  double gradient_norm = gradient_norm_tolerance;
};

bool is_low_precision(const std::string& run) {
  return own_run_of(parse_variant(run)).precision != Precision::fp32;
}

/// The largest distance from float32 that was recorded of a case's runs in low precision, in one of
/// the figures of `against_single`. Two such runs lie within twice that of each other.
double recorded_spread(const Json& result, const char* figure, const char* value) {
  double spread = 0;
  for (const auto& [name, run] : result.at("runs").items())
    if (why_not(parse_variant(name)).empty() && is_low_precision(name))
      spread = std::max(spread, run.at("against_single").at(figure).at(value).get<double>());
  return spread;
}

Tolerance tolerance_of(const Json& result, const std::string& run) {
  if (!why_not(parse_variant(run)).empty() || !is_low_precision(run)) return {};
  return {.loss = noise_factor * recorded_spread(result, "loss", "max_rel"),
          .gradient_norm = noise_factor * recorded_spread(result, "grad_norm", "max_rel")};
}

double noise_of(const Json& result, const std::string& name) {
  if (is_low_precision(result.at("primary").get<std::string>()))
    return noise_factor * recorded_spread(result, "final_max_abs", "value");
  const Json& noise = result.at("final_parameters_noise");
  const bool known = noise.is_object() && noise.contains(name) && !noise.at(name).is_null();
  return noise_factor * (known ? noise.at(name).get<double>() : default_noise);
}

/// All elements, where final.safetensors was recorded.
void compare_final_file(const fs::path& folder, const Job& job, const TrainingResult& got,
                        const Json& result, Verdict& verdict) {
  const SafetensorsFile file(folder / "final.safetensors");
  for (const auto& [name, values] : got.parameters) {
    const SafetensorsTensor* const tensor = file.find(name);
    if (tensor == nullptr || tensor->elements() != static_cast<std::int64_t>(values.size())) {
      verdict.fail(fmt::format("{} of {} is not as recorded", name, job.model.string()));
      continue;
    }
    std::vector<float> expected(values.size());
    file.read_floats(*tensor, 0, expected);
    compare_elements(values, expected, noise_of(result, name), name, verdict);
  }
}

void compare_parameters(const fs::path& folder, const Job& job, const TrainingResult& got,
                        const Json& result, Verdict& verdict) {
  for (const auto& [name, recorded] : result.at("final_parameters").items()) {
    const auto found = got.parameters.find(name);
    if (found == got.parameters.end()) {
      verdict.fail(name + " is not among our parameters");
      continue;
    }
    compare_summary(found->second, recorded, noise_of(result, name), name, verdict);
  }
  if (fs::exists(folder / "final.safetensors"))
    compare_final_file(folder, job, got, result, verdict);
}

/// Our runs of one case, each trained once.
class OwnRuns {
 public:
  explicit OwnRuns(Job job) : job_(std::move(job)) {}

  const Job& job() const { return job_; }
  const TrainingResult& of(const OwnRun& run) {
    const auto found = results_.find(run);
    return found != results_.end() ? found->second
                                   : results_.emplace(run, run_training(job_, run)).first->second;
  }

 private:
  Job job_;
  std::map<OwnRun, TrainingResult> results_;
};

/// One recorded run.
struct RecordedRun {
  std::string name;
  const Json& steps;  ///< its losses and norms
  Tolerance tolerance;
};

void compare_run(const RecordedRun& run, OwnRuns& runs, const Options& options, Verdict& verdict) {
  const auto& [name, recorded, tolerance] = run;
  const TrainingVariant variant = parse_variant(name);
  if (const std::string reason = why_not(variant); !reason.empty()) {
    return verdict.fail(fmt::format("run {} was not compared: {}", name, reason));
  }
  const TrainingResult& got = runs.of(own_run_of(variant));
  if (!options.leaves_out("loss")) {
    compare_steps(got.loss, recorded.at("loss"), tolerance.loss, name + " loss", verdict);
  }
  if (!options.leaves_out("grad_norm")) {
    compare_steps(got.gradient_norm, recorded.at("grad_norm"), tolerance.gradient_norm,
                  name + " grad_norm", verdict);
  }
}

/// The run that the recording's figures are of: rates and final parameters, too.
void compare_primary(const fs::path& folder, const Json& result, OwnRuns& runs,
                     const Options& options, Verdict& verdict) {
  const std::string primary = result.at("primary").get<std::string>();
  compare_run({primary, result, tolerance_of(result, primary)}, runs, options, verdict);
  if (!why_not(parse_variant(primary)).empty()) return;
  const TrainingResult& got = runs.of(own_run_of(parse_variant(primary)));
  if (!options.leaves_out("lr"))
    compare_steps(got.learning_rate, result.at("lr"), learning_rate_tolerance, "lr", verdict);
  if (!options.leaves_out("final_parameters"))
    compare_parameters(folder, runs.job(), got, result, verdict);
}

Outcome check(const fs::path& root, const std::string& name, const Options& options) {
  const fs::path folder = root / "cases" / name;
  const Json result = recorded_json(folder, "result");
  OwnRuns runs(training_job(root, recorded_json(folder, "case")));
  const std::string primary = result.at("primary").get<std::string>();
  const auto is_asked = [](const std::string& run) {
    return is_asked_of(parse_variant(run), uses_other_device());
  };
  Verdict verdict;
  if (is_asked(primary)) compare_primary(folder, result, runs, options, verdict);
  if (!options.leaves_out("runs")) {
    for (const auto& [variant, recorded] : result.at("runs").items()) {
      if (is_asked(variant))
        compare_run({variant, recorded, tolerance_of(result, variant)}, runs, options, verdict);
    }
  }
  return verdict.outcome();
}

std::vector<std::string> cases(const fs::path& root) {
  const Json list = recorded_json(root, "cases");
  std::vector<std::string> names;
  for (const Json& row : list.at("cases")) names.push_back(row.at("name").get<std::string>());
  return names;
}

}  // namespace

Kind training_kind() {
  return {.name = "training",
          .fields = {"loss", "grad_norm", "lr", "final_parameters", "runs"},
          .cases = cases,
          .check = check};
}

}  // namespace shardscope::recordings
