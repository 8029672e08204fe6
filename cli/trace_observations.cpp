#include "cli/trace_observations.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/format/json_reader.h"
#include "traces/import/collective_names.h"
#include "traces/import/collectives.h"
#include "traces/import/device_activity.h"

namespace shardscope {
namespace {

/// Calls whose arguments are read again from the file's text; enough for medians.
constexpr std::size_t most_products = 20'000;
/// Different shapes, sizes; what comes after them is like them.
constexpr std::size_t most_subjects = 4096;
constexpr Flops least_product{1'000'000'000};
/// No shape is larger, so that no product of them overflows.
constexpr std::int64_t largest_size = 1 << 20;

struct ClassWords {
  KernelClass kernel_class;
  std::vector<std::string_view> words;
};

/// The first row that has a word of the name decides.
const std::array<ClassWords, 2>& class_words() {
  static const std::array<ClassWords, 2> rows{{
      {KernelClass::attention, {"flash", "fmha", "attention", "sdpa"}},
      {KernelClass::product, {"gemm", "cublas", "cutlass", "nvjet", "wgmma", "mm_"}},
  }};
  return rows;
}

struct ProductOperator {
  std::string_view name;
  std::size_t left;  ///< place of the left factor among the inputs; the right one follows
};
constexpr ProductOperator product_operators[] = {
    {"aten::mm", 0}, {"aten::addmm", 1}, {"aten::bmm", 0}};

const ProductOperator* product_operator(std::string_view name) {
  const auto* found = std::ranges::find(product_operators, name, &ProductOperator::name);
  return found == std::end(product_operators) ? nullptr : found;
}

std::optional<std::vector<std::int64_t>> sizes_of(const JsonValue& shape, std::size_t axes) {
  std::vector<std::int64_t> sizes;
  for (const JsonValue& size : shape.elements()) sizes.push_back(size.integer(1, largest_size));
  return sizes.size() == axes ? std::optional(sizes) : std::nullopt;
}

/// What the operator multiplies, by its recorded shapes; none where they were not recorded.
std::optional<ObservedProduct> product_of(const ImportedTrace& trace, std::uint32_t event) {
  const ProductOperator& op = *product_operator(trace.name_of(event));
  try {
    const JsonValue json = JsonValue::parse(trace.text_of(event), trace.file);
    const auto shapes = json.at("args").at("Input Dims").elements();
    const auto types = json.at("args").at("Input type").elements();
    if (shapes.size() < op.left + 2 || types.size() <= op.left) return std::nullopt;
    const std::size_t axes = op.name == "aten::bmm" ? 3 : 2;
    const auto left = sizes_of(shapes[op.left], axes);
    const auto right = sizes_of(shapes[op.left + 1], axes);
    const std::optional<Dtype> dtype = traced_dtype(types[op.left].string());
    if (!left || !right || !dtype) return std::nullopt;
    std::int64_t flops = 2 * right->back();
    for (const std::int64_t size : *left)
      if (__builtin_mul_overflow(flops, size, &flops)) return std::nullopt;
    return ObservedProduct{.shape = {.batch = axes == 3 ? left->front() : 1,
                                     .m = (*left)[axes - 2],
                                     .n = right->back(),
                                     .k = left->back()},
                           .dtype = *dtype};
  } catch (const Error&) {
    return std::nullopt;  // an operator without shapes, or with other arguments
  }
}

/// Finds the operator that launched a kernel.
class ProductLaunches {
 public:
  explicit ProductLaunches(const ImportedTrace& trace) : trace_(trace) {
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      if (trace.track_of(i).kind != TrackKind::thread || trace.events.phase[i] != 'X') continue;
      if (trace.events.link[i] != 0) launch_of_.try_emplace(trace.events.link[i], i);
      if (product_operator(trace.name_of(i)) != nullptr)
        by_track_[trace.events.track[i]].push_back(i);
    }
    for (auto& [track, operators] : by_track_)
      std::ranges::stable_sort(operators, {}, [&](std::uint32_t i) { return start_ns(i); });
  }

  std::optional<std::uint32_t> operator_of(std::uint32_t kernel) const {
    const auto launch = launch_of_.find(trace_.events.link[kernel]);
    if (launch == launch_of_.end()) return std::nullopt;
    const auto operators = by_track_.find(trace_.events.track[launch->second]);
    if (operators == by_track_.end()) return std::nullopt;
    const std::int64_t time = start_ns(launch->second);
    const auto behind = std::ranges::upper_bound(operators->second, time, {},
                                                 [&](std::uint32_t i) { return start_ns(i); });
    if (behind == operators->second.begin()) return std::nullopt;
    const std::uint32_t op = *(behind - 1);
    return trace_.events.end_ns(op) >= time ? std::optional(op) : std::nullopt;
  }

 private:
  std::int64_t start_ns(std::uint32_t event) const { return trace_.events.start_ns[event]; }

  const ImportedTrace& trace_;
  std::unordered_map<std::uint32_t, std::uint32_t> launch_of_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> by_track_;
};

/// Timings whose step is the how-manieth call of its subject they are.
template <class Subject>
class Calls {
 public:
  void add(Observed<Subject>& observed, const Subject& subject, Duration time) {
    if (observed.subjects.size() >= most_subjects) return;
    const std::uint32_t place = subject_of(observed, subject);
    calls_.resize(observed.subjects.size());
    observed.timings.push_back({place, calls_[place]++, time});
  }

 private:
  std::vector<int> calls_;
};

class Observer {
 public:
  void add(const ImportedTrace& trace) {
    ++ranks_;
    for (const DeviceActivities& device : device_activities(trace)) add_kernels(trace, device);
    add_copies(trace);
    add_launches(trace);
    add_collectives(trace);
  }

  TraceObservations take() {
    for (const ObservedCollective& c : result_.run.collectives.subjects)
      result_.ranks_are_missing = result_.ranks_are_missing || c.ranks > ranks_;
    for (const auto& [key, time] : shortest_) {
      const auto& [collective, group, call] = key;
      result_.run.collectives.timings.push_back({collective, call, time});
    }
    return std::move(result_);
  }

  bool saw_a_device() const { return saw_a_device_; }

 private:
  void add_kernels(const ImportedTrace& trace, const DeviceActivities& device) {
    const ProductLaunches launches(trace);
    std::map<std::uint32_t, Duration> by_operator;  // a product may take several kernels
    for (const DeviceActivity& activity : device.activities) {
      saw_a_device_ = true;
      if (activity.kind != ActivityKind::kernel || activity.span_class != SpanClass::compute)
        continue;
      const KernelClass kernel_class = class_of_kernel(trace.name_of(activity.event));
      result_.by_class[kernel_class] += activity.window.length();
      if (kernel_class != KernelClass::product) continue;
      if (const auto op = launches.operator_of(activity.event))
        by_operator[*op] += activity.window.length();
    }
    for (const auto& [op, time] : by_operator) {
      if (result_.run.products.timings.size() >= most_products) break;
      const std::optional<ObservedProduct> product = product_of(trace, op);
      if (!product || flops_of(*product) < least_product || time.ns <= 0) continue;
      products_.add(result_.run.products, *product, time);
      result_.used[KernelClass::product] += time;
    }
  }

  void add_copies(const ImportedTrace& trace) {
    for (const CopiedBytes& copy : trace.copied_bytes) {
      const std::string_view name = trace.name_of(copy.event);
      const Duration time{trace.events.duration_ns[copy.event]};
      if (time.ns <= 0 || copy.bytes <= Bytes{}) continue;
      for (const auto& [word, direction] : {std::pair{"HtoD", CopyDirection::host_to_device},
                                            std::pair{"DtoH", CopyDirection::device_to_host},
                                            std::pair{"DtoD", CopyDirection::within_device}})
        if (name.find(word) != std::string_view::npos)
          copies_.add(result_.run.copies, {direction, copy.bytes}, time);
    }
  }

  void add_launches(const ImportedTrace& trace) {
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      if (trace.track_of(i).kind != TrackKind::thread || trace.events.phase[i] != 'X') continue;
      const bool launches = trace.name_of(i).find("LaunchKernel") != std::string_view::npos;
      const Duration time{trace.events.duration_ns[i]};
      if (launches && time.ns > 0) result_.run.launches.push_back(time);
    }
  }

  void add_collectives(const ImportedTrace& trace) {
    std::map<std::pair<std::uint32_t, std::string>, int> calls;
    for (const ImportedCollective& c : imported_collectives(trace)) {
      const auto elements = std::max(c.elements_in, c.elements_out);
      const bool on_device = trace.track_of(c.event).kind == TrackKind::stream;
      const bool is_known = on_device && c.kind && elements && c.dtype && c.group_size;
      if (!is_known || *elements <= 0 || *c.group_size < 2 || c.duration.ns <= 0) continue;
      if (*elements > most_elements || *c.group_size > most_ranks) continue;
      const std::uint32_t subject =
          subject_of(result_.run.collectives,
                     {*c.kind, static_cast<int>(*c.group_size), bytes_of(*elements, *c.dtype)});
      const int call = calls[{subject, c.group}]++;
      const auto [known, is_new] = shortest_.try_emplace({subject, c.group, call}, c.duration);
      if (!is_new) known->second = std::min(known->second, c.duration);
    }
  }

  static constexpr std::int64_t most_elements = std::int64_t{1} << 50;
  static constexpr std::int64_t most_ranks = 1 << 24;

  TraceObservations result_;
  Calls<ObservedProduct> products_;
  Calls<ObservedCopy> copies_;
  int ranks_ = 0;
  bool saw_a_device_ = false;
  /// Over ranks, by collective, group and call.
  std::map<std::tuple<std::uint32_t, std::string, int>, Duration> shortest_;
};

}  // namespace

std::string_view name_of(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::product:
      return "product";
    case KernelClass::attention:
      return "attention";
    case KernelClass::memory_bound:
      return "memory_bound";
  }
  return "";
}

KernelClass class_of_kernel(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const ClassWords& row : class_words())
    for (const std::string_view word : row.words)
      if (lower.find(word) != std::string::npos) return row.kernel_class;
  return KernelClass::memory_bound;
}

TraceObservations observe_traces(const std::vector<ImportedTrace>& traces) {
  Observer observer;
  for (const ImportedTrace& trace : traces) observer.add(trace);
  if (!observer.saw_a_device())
    throw Error({.where = traces.empty() ? "TRACE" : traces.front().file,
                 .what = "has no GPU operations: nothing of it says how fast a machine is",
                 .way_out = "profile with ProfilerActivity.CUDA"});
  return observer.take();
}

}  // namespace shardscope
