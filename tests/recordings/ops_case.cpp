#include "tests/recordings/ops_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "tests/recordings/recorded_file.h"

namespace shardscope::recordings {
namespace {

nlohmann::ordered_json settings_of(const std::filesystem::path& folder,
                                   const std::string& operation, const std::string& name) {
  const nlohmann::ordered_json cases = recorded_json(folder, operation);
  for (const auto& entry : cases)
    if (entry.at("name") == name) return entry;
  throw Error({.where = (folder / (operation + ".json")).string(),
               .what = fmt::format("has no case \"{}\"", name),
               .way_out = {}});
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

/// 0 where both are the same, NaN included; infinite where only one is not finite.
double error_between(double ours, double expected) {
  if (ours == expected || (std::isnan(ours) && std::isnan(expected))) return 0;
  const double error = std::abs(ours - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

double share_of(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : std::numeric_limits<double>::infinity();
}

/// "p" of "p12".
std::string field_of(std::string output) {
  while (!output.empty() && std::isdigit(static_cast<unsigned char>(output.back())))
    output.pop_back();
  return output;
}

}  // namespace

OpsCase::OpsCase(const std::filesystem::path& folder, const std::string& name,
                 const Options& options)
    : operation_(name.substr(0, name.find('/'))),
      case_(name.substr(operation_.size() + 1)),
      options_(options),
      settings_(settings_of(folder, operation_, case_)) {
  const std::filesystem::path path = folder / (operation_ + ".safetensors");
  if (std::filesystem::exists(path)) tensors_.emplace_back(path);
}

const SafetensorsTensor& OpsCase::find(const std::string& name) const {
  const SafetensorsTensor* found =
      tensors_.empty() ? nullptr : tensors_.front().find(case_ + "/" + name);
  if (!found)
    throw Error({.where = operation_ + ".safetensors",
                 .what = fmt::format("has no tensor \"{}/{}\"", case_, name),
                 .way_out = {}});
  return *found;
}

double OpsCase::recorded_error(const std::string& output) const {
  const auto& error = settings_.at("f32_max_abs_error").at(output);
  return error.is_number() ? error.get<double>() : 0.0;  // "nan" and "inf" are recorded as text
}

void OpsCase::compare(const std::string& output, const std::vector<double>& ours) {
  const std::vector<double> expected = tensor<double>("f64/" + output);
  constexpr double four_units = 4 * 0x1p-23;
  compare(output, ours, expected,
          std::max(8 * recorded_error(output), four_units * largest_magnitude(expected)));
}

void OpsCase::compare(const std::string& output, const std::vector<double>& ours,
                      const std::vector<double>& expected, double allowed) {
  if (options_.leaves_out(field_of(output))) return;
  if (ours.size() != expected.size()) {
    outcome_.difference =
        fmt::format("{}: expected {} numbers, got {}", output, expected.size(), ours.size());
    return;
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double share = share_of(error_between(ours[i], expected[i]), allowed);
    if (outcome_.worst_share && share <= *outcome_.worst_share) continue;
    outcome_.worst_share = share;
    outcome_.worst =
        fmt::format("{}[{}] off by {:.3g}", output, i, std::abs(ours[i] - expected[i]));
    if (share > 1 && outcome_.difference.empty())
      outcome_.difference = fmt::format("{}[{}]: expected {:.9g}, got {:.9g}, allowed {:.3g}",
                                        output, i, expected[i], ours[i], allowed);
  }
}

}  // namespace shardscope::recordings
