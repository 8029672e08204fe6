#include "backend/profile/window_results.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/launch/time_limit.h"
#include "backend/profile/rank_clock.h"
#include "core/error.h"
#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds between_looks{10};

std::string done_key(StepRange steps) { return fmt::format("profile/{}/done", steps.first); }

fs::path folder_of(const fs::path& run_folder, StepRange steps) {
  return run_folder / "profiles" / fmt::format("{}-{}", steps.first, steps.last);
}

fs::path trace_path(const fs::path& folder, int rank) {
  return folder / fmt::format("trace.{}.json.gz", rank);
}

}  // namespace

void WindowResults::start(StepRange steps, Trace trace, std::int64_t base_monotonic_ns) {
  pending_ = std::async(
      std::launch::async, [this, steps, trace = std::move(trace), base_monotonic_ns]() mutable {
        try {
          return leave(steps, std::move(trace), base_monotonic_ns);
        } catch (const Error& error) {
          return fmt::format("rank {}: the profile of steps {}-{} is not complete: {}",
                             place_.environment.rank, steps.first, steps.last, error.what());
        }
      });
}

std::optional<std::string> WindowResults::take(bool wait) {
  if (!pending_.valid()) return std::nullopt;
  if (!wait && pending_.wait_for(milliseconds(0)) != std::future_status::ready) return std::nullopt;
  return pending_.get();
}

std::string WindowResults::leave(StepRange steps, Trace trace,
                                 std::int64_t base_monotonic_ns) const {
  const fs::path folder = folder_of(place_.run_folder, steps);
  create_folder(folder);
  std::optional<TcpStore> store;
  if (place_.session)
    store.emplace(place_.session->meeting.connect(place_.session->meeting.deadline()));
  const CommonClock clock = common_clock(place_.environment, store ? &*store : nullptr,
                                         fmt::format("profile/{}/clock", steps.first));
  trace.base_ns = base_monotonic_ns + clock.unix_minus_monotonic.offset_ns;
  trace.recording.clock = clock.method;
  trace.recording.clock_residual = clock.unix_minus_monotonic.residual;
  write_chrome_trace(trace, trace_path(folder, place_.environment.rank));
  if (store) store->add(done_key(steps), 1);
  if (place_.environment.rank != 0) return {};
  if (store) wait_for_peers(steps, *store);
  return fmt::format("steps {}-{} are profiled: {}", steps.first, steps.last, folder.string());
}

void WindowResults::wait_for_peers(StepRange steps, TcpStore& store) const {
  const TimeLimit limit(place_.session->meeting.deadline());
  const int world = place_.environment.world;
  std::int64_t done = 0;
  while ((done = store.add(done_key(steps), 0)) < world) {
    if (gives_up_ || limit.passed()) {
      throw Error({.where = "profile",
                   .what = fmt::format("{} of {} ranks left their traces in time", done, world),
                   .way_out = "raise timeout in the job",
                   .code = ExitCode::outside});
    }
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace shardscope
