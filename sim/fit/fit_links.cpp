#include "sim/fit/fit_links.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "sim/cost/cost_model.h"

namespace shardscope {
namespace {

/// Logarithms of the factors on bandwidth and latency.
using Factors = std::array<double, 2>;

constexpr double widest = 10;  ///< of a factor's logarithm: nothing is off by e^10

Link corrected(const Link& link, const Factors& factors) {
  return {.bandwidth = {link.bandwidth.bytes_per_s * std::exp(factors[0])},
          .latency = Duration::from_seconds(link.latency.seconds() * std::exp(factors[1]))};
}

class LinkFit {
 public:
  LinkFit(HardwareProfile& profile, std::optional<Link> HardwareProfile::*link,
          std::vector<TimedCollective> timed)
      : profile_(profile), link_(link), was_(*(profile.*link)), timed_(std::move(timed)) {}

  void run() {
    const std::size_t free = knows_latency() ? 2 : 1;
    Factors factors{};
    double damping = 1e-3;
    double error = squares(errors(factors));
    for (int i = 0; i < 100 && damping < 1e9; ++i) {
      const Factors next = step(factors, free, damping);
      const double next_error = squares(errors(next));
      const bool is_better = next_error < error;
      damping *= is_better ? 0.3 : 5;
      if (!is_better) continue;
      factors = next;
      error = next_error;
    }
    profile_.*link_ = corrected(was_, factors);
    if (free == 1) (profile_.*link_)->latency = was_.latency;
  }

 private:
  bool knows_latency() const {
    if (was_.latency.ns <= 0) return false;
    const auto [least, most] = std::ranges::minmax(
        timed_, {}, [](const TimedCollective& one) { return one.collective.bytes; });
    return most.collective.bytes >= least.collective.bytes * 2;
  }

  /// Relative, by collective.
  std::vector<double> errors(const Factors& factors) {
    profile_.*link_ = corrected(was_, factors);
    const CostModel model(profile_);
    std::vector<double> result;
    for (const TimedCollective& one : timed_) {
      const ObservedCollective& c = one.collective;
      const Duration predicted =
          model.collectives().cost(c.kind, c.bytes, Ranks::up_to(c.ranks)).time;
      result.push_back(std::log(std::max(predicted.seconds(), 1e-12) / one.time.seconds()));
    }
    return result;
  }

  static double squares(const std::vector<double>& errors) {
    return std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0);
  }

  /// Solves (J'J + damping diag(J'J)) d = -J'e for the first `free` factors.
  Factors step(const Factors& factors, std::size_t free, double damping) {
    constexpr double nudge = 1e-4;
    const std::vector<double> here = errors(factors);
    std::array<std::vector<double>, 2> slope;
    for (std::size_t p = 0; p < free; ++p) {
      Factors nudged = factors;
      nudged[p] += nudge;
      slope[p] = errors(nudged);
      for (std::size_t i = 0; i < here.size(); ++i) slope[p][i] = (slope[p][i] - here[i]) / nudge;
    }
    const auto dot = [&](const std::vector<double>& a, const std::vector<double>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    Factors next = factors;
    const double a = dot(slope[0], slope[0]) * (1 + damping) + 1e-12;
    const double g0 = dot(slope[0], here);
    if (free == 1) {
      next[0] = std::clamp(factors[0] - g0 / a, -widest, widest);
      return next;
    }
    const double b = dot(slope[0], slope[1]);
    const double c = dot(slope[1], slope[1]) * (1 + damping) + 1e-12;
    const double g1 = dot(slope[1], here);
    const double determinant = a * c - b * b;
    next[0] = std::clamp(factors[0] - (c * g0 - b * g1) / determinant, -widest, widest);
    next[1] = std::clamp(factors[1] - (a * g1 - b * g0) / determinant, -widest, widest);
    return next;
  }

  HardwareProfile& profile_;
  std::optional<Link> HardwareProfile::*link_;
  Link was_;
  std::vector<TimedCollective> timed_;
};

}  // namespace

std::vector<FittedLink> fit_links(HardwareProfile& profile,
                                  const std::vector<TimedCollective>& timed) {
  std::vector<FittedLink> fitted;
  const auto fit_one = [&](const char* name, std::optional<Link> HardwareProfile::*link,
                           bool across) {
    std::vector<TimedCollective> over;
    std::size_t calls = 0;
    for (const TimedCollective& one : timed) {
      const bool fits =
          profile.ranks_per_node == 0 || one.collective.ranks <= profile.ranks_per_node;
      if (fits == across) continue;
      over.push_back(one);
      calls += one.calls;
    }
    if (over.empty() || !(profile.*link)) return;
    const Link was = *(profile.*link);
    LinkFit(profile, link, std::move(over)).run();
    fitted.push_back({.name = name, .was = was, .is = *(profile.*link), .timings = calls});
  };
  fit_one("link", &HardwareProfile::link, false);
  fit_one("network", &HardwareProfile::network, true);
  return fitted;
}

}  // namespace shardscope
