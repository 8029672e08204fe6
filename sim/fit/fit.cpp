#include "sim/fit/fit.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/median.h"
#include "sim/cost/cost_model.h"
#include "sim/fit/fit_links.h"
#include "sim/fit/held_out.h"

namespace shardscope {
namespace {

/// What a profile says of an observed subject, alone.
class Predictor {
 public:
  explicit Predictor(const HardwareProfile& profile) : profile_(profile), model_(profile) {}

  Duration time(const Kernel& kernel) const { return model_.kernel_time(kernel); }
  Duration time(const ObservedCollective& c) const {
    return model_.collectives().cost(c.kind, c.bytes, Ranks::up_to(c.ranks)).time;
  }
  /// Of a GPU as the cost model has it, so that the corrected peak leads to what was measured.
  Duration time(const ObservedProduct& product) const {
    if (!profile_.gpu) return flops_of(product) / peak_of(profile_, product.dtype);
    return model_.work_time({.kind = WorkKind::matmul,
                             .dtype = product.dtype,
                             .matmul = product.shape,
                             .bytes = bytes_of(product),
                             .flops = flops_of(product)});
  }
  Duration time(const ObservedCopy& copy) const {
    if (copy.direction == CopyDirection::within_device) return model_.copy_time(copy.bytes * 2);
    const std::optional<Link>& link = copy.direction == CopyDirection::host_to_device
                                          ? profile_.host_to_device
                                          : profile_.device_to_host;
    return link ? link->latency + copy.bytes / link->bandwidth : Duration{};
  }

 private:
  const HardwareProfile& profile_;
  CostModel model_;
};

/// Predicted and measured time of what belongs together, all calls.
struct Sums {
  double predicted_s = 0;
  double measured_s = 0;
  std::size_t timings = 0;

  void add(Duration predicted, const Median& measured) {
    predicted_s += predicted.seconds() * static_cast<double>(measured.calls);
    measured_s += measured.time.seconds() * static_cast<double>(measured.calls);
    timings += measured.calls;
  }
  double factor() const { return measured_s / predicted_s; }
};

std::string in_all(double seconds) {
  return rounded_text(Duration::from_seconds(seconds)) + " in all";
}

class Fitter {
 public:
  Fitter(const HardwareProfile& profile, const RunObservations& run, const Provenance& provenance)
      : run_(run), provenance_(provenance), before_(profile) {
    fit_.profile = profile;
    parting_.add(run.kernels);
    parting_.add(run.collectives);
    parting_.add(run.products);
    parting_.add(run.copies);
    fit_.is_held_out = parting_.has_both();
  }

  Fit run() {
    const double before = residual(fit_.profile);
    fit_kernels();
    fit_collectives();
    fit_products();
    fit_copies();
    fit_launches();
    if (fit_.constants.empty())
      throw Error(
          {.where = "the run",
           .what = "nothing in it can be compared with the profile: no kernels with shapes, "
                   "no collectives with sizes, no launches, no copies",
           .way_out = "profile with record_shapes=True, or give a run of `shardscope train`"});
    fit_.residual_before = before;
    fit_.residual_after = residual(fit_.profile);
    return std::move(fit_);
  }

 private:
  template <class Subject>
  static void add_residual(const Observed<Subject>& observed, const Parting& parting,
                           const Predictor& predictor, double& error_s, double& measured_s) {
    const std::vector<Median> held_out = medians(observed, parting, Part::held_out);
    for (std::size_t i = 0; i < held_out.size(); ++i) {
      if (held_out[i].calls == 0) continue;
      const Duration predicted = predictor.time(observed.subjects[i]);
      const auto calls = static_cast<double>(held_out[i].calls);
      error_s += std::abs(predicted.seconds() - held_out[i].time.seconds()) * calls;
      measured_s += held_out[i].time.seconds() * calls;
    }
  }

  double residual(const HardwareProfile& profile) const {
    const Predictor predictor(profile);
    double error_s = 0;
    double measured_s = 0;
    add_residual(run_.kernels, parting_, predictor, error_s, measured_s);
    add_residual(run_.collectives, parting_, predictor, error_s, measured_s);
    add_residual(run_.products, parting_, predictor, error_s, measured_s);
    add_residual(run_.copies, parting_, predictor, error_s, measured_s);
    return measured_s > 0 ? error_s / measured_s : 0;
  }

  void note(const std::string& figure) { fit_.profile.provenance[figure] = provenance_; }

  void report(const std::string& name, const Sums& sums) {
    fit_.constants.push_back({.name = name,
                              .was = in_all(sums.predicted_s),
                              .is = in_all(sums.measured_s),
                              .factor = sums.factor(),
                              .timings = sums.timings});
  }

  template <class Quantity>
  void report(const std::string& name, Quantity was, Quantity is, double factor,
              std::size_t timings) {
    fit_.constants.push_back({name, rounded_text(was), rounded_text(is), factor, timings});
  }

  void fit_kernels() {
    const Predictor predictor(before_);
    const std::vector<Median> seen = medians(run_.kernels, parting_, Part::seen);
    std::map<KernelKind, Sums> by_kind;
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].calls > 0)
        by_kind[run_.kernels.subjects[i].kind()].add(predictor.time(run_.kernels.subjects[i]),
                                                     seen[i]);
    for (const auto& [kind, sums] : by_kind) {
      report(fmt::format("kernels {}", name_of(kind)), sums);
      for (KernelSample& sample : fit_.profile.kernels)
        if (sample.kernel.kind() == kind)
          sample.time = Duration::from_seconds(sample.time.seconds() * sums.factor());
    }
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].calls > 0) put_sample(cost_key(run_.kernels.subjects[i]), seen[i].time);
    if (!by_kind.empty()) note("kernels");
  }

  void put_sample(const Kernel& key, Duration time) {
    for (KernelSample& sample : fit_.profile.kernels)
      if (cost_key(sample.kernel) == key) {
        sample.time = time;
        return;
      }
    fit_.profile.kernels.push_back({key, time});
  }

  void fit_collectives() {
    const HardwareProfile& profile = fit_.profile;
    if (run_.collectives_are_samples || !profile.collectives.empty() || profile.node ||
        !profile.link)
      return fit_collective_samples();
    const std::vector<Median> seen = medians(run_.collectives, parting_, Part::seen);
    std::vector<TimedCollective> timed;
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].calls > 0)
        timed.push_back({run_.collectives.subjects[i], seen[i].time, seen[i].calls});
    for (const FittedLink& link : fit_links(fit_.profile, timed)) {
      report(link.name + ".bandwidth", link.was.bandwidth, link.is.bandwidth,
             link.is.bandwidth.bytes_per_s / link.was.bandwidth.bytes_per_s, link.timings);
      if (link.is.latency != link.was.latency)
        report(link.name + ".latency", link.was.latency, link.is.latency,
               link.is.latency.seconds() / link.was.latency.seconds(), link.timings);
      note(link.name);
    }
  }

  void fit_collective_samples() {
    const std::vector<Median> seen = medians(run_.collectives, parting_, Part::seen);
    std::map<std::pair<OperationKind, int>, Sums> by_kind;
    const bool was_known = !before_.collectives.empty() || before_.link || before_.node;
    const Predictor predictor(before_);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const ObservedCollective& c = run_.collectives.subjects[i];
      if (seen[i].calls > 0)
        by_kind[{c.kind, c.ranks}].add(was_known ? predictor.time(c) : seen[i].time, seen[i]);
    }
    for (const auto& [kind, sums] : by_kind) {
      report(fmt::format("collectives {} of {} ranks", name_of(kind.first), kind.second), sums);
      for (CollectiveSample& sample : fit_.profile.collectives)
        if (sample.kind == kind.first && sample.ranks == kind.second)
          sample.time = Duration::from_seconds(sample.time.seconds() * sums.factor());
    }
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].calls > 0) put_sample(run_.collectives.subjects[i], seen[i].time);
    if (!by_kind.empty()) note("collectives");
  }

  void put_sample(const ObservedCollective& c, Duration time) {
    for (CollectiveSample& sample : fit_.profile.collectives)
      if (sample.kind == c.kind && sample.ranks == c.ranks && sample.bytes == c.bytes) {
        sample.time = time;
        return;
      }
    fit_.profile.collectives.push_back({c.kind, c.ranks, c.bytes, time});
  }

  /// A peak by the share of it that products reach.
  void fit_products() {
    const Predictor predictor(before_);
    const std::vector<Median> seen = medians(run_.products, parting_, Part::seen);
    std::map<Dtype, Sums> by_dtype;
    // A data sheet's peak of float16 is one of its own, which has no place in the file.
    const auto has_a_figure = [&](Dtype dtype) { return !before_.gpu || dtype != Dtype::float16; };
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].calls > 0 && has_a_figure(run_.products.subjects[i].dtype))
        by_dtype[run_.products.subjects[i].dtype].add(predictor.time(run_.products.subjects[i]),
                                                      seen[i]);
    for (const auto& [dtype, sums] : by_dtype) {
      const bool is_half = dtype == Dtype::bfloat16;
      const FlopRate was = peak_of(before_, dtype);
      const FlopRate is{was.flops_per_s / sums.factor()};
      const std::string name = is_half ? "peak_bfloat16" : "peak";
      if (is_half)
        fit_.profile.peak_bfloat16 = is;
      else
        fit_.profile.peak = is;
      report(name, was, is, 1 / sums.factor(), sums.timings);
      note(name);
    }
  }

  void fit_copies() {
    const std::vector<Median> seen = medians(run_.copies, parting_, Part::seen);
    const auto rate = [&](CopyDirection direction) {
      std::pair<Bandwidth, std::size_t> best{};
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const ObservedCopy& copy = run_.copies.subjects[i];
        if (seen[i].calls == 0 || copy.direction != direction || copy.bytes < least_copy) continue;
        best.first.bytes_per_s = std::max(
            best.first.bytes_per_s, static_cast<double>(copy.bytes.count) / seen[i].time.seconds());
        best.second += seen[i].calls;
      }
      return best;
    };
    const auto correct = [&](std::optional<Link>& link, const char* name, CopyDirection direction) {
      const auto [bandwidth, timings] = rate(direction);
      if (timings == 0 || !link) return;
      report(name + std::string(".bandwidth"), link->bandwidth, bandwidth,
             bandwidth.bytes_per_s / link->bandwidth.bytes_per_s, timings);
      link->bandwidth = bandwidth;
      note(name);
    };
    correct(fit_.profile.host_to_device, "host_to_device", CopyDirection::host_to_device);
    correct(fit_.profile.device_to_host, "device_to_host", CopyDirection::device_to_host);
    if (before_.gpu) return fit_memory_bandwidth(seen);
    const auto [within, timings] = rate(CopyDirection::within_device);
    if (timings == 0) return;
    correct_memory_bandwidth({2 * within.bytes_per_s}, timings);  // read and written
  }

  /// A data sheet's bandwidth, of which the cost model takes a share.
  void fit_memory_bandwidth(const std::vector<Median>& seen) {
    const Predictor predictor(before_);
    Sums sums;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const ObservedCopy& copy = run_.copies.subjects[i];
      const bool is_within = copy.direction == CopyDirection::within_device;
      if (seen[i].calls > 0 && is_within && copy.bytes >= least_copy)
        sums.add(predictor.time(copy), seen[i]);
    }
    if (sums.timings == 0) return;
    correct_memory_bandwidth({before_.memory_bandwidth.bytes_per_s / sums.factor()}, sums.timings);
  }

  void correct_memory_bandwidth(Bandwidth is, std::size_t timings) {
    report("memory_bandwidth", before_.memory_bandwidth, is,
           is.bytes_per_s / before_.memory_bandwidth.bytes_per_s, timings);
    fit_.profile.memory_bandwidth = is;
    note("memory_bandwidth");
  }

  void fit_launches() {
    if (run_.launches.empty()) return;
    const Duration is = median(run_.launches);
    const Duration was = before_.operation_overhead;
    report("operation_overhead", was, is, was.ns > 0 ? is.seconds() / was.seconds() : 1,
           run_.launches.size());
    fit_.profile.operation_overhead = is;
    note("operation_overhead");
  }

  /// Smaller copies say more of latency than of bandwidth.
  static constexpr Bytes least_copy = 1_MiB;

  const RunObservations& run_;
  const Provenance& provenance_;
  const HardwareProfile& before_;
  Parting parting_;
  Fit fit_;
};

}  // namespace

Fit fit(const HardwareProfile& profile, const RunObservations& run, const Provenance& provenance) {
  return Fitter(profile, run, provenance).run();
}

}  // namespace shardscope
