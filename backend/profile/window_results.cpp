#include "backend/profile/window_results.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/launch/time_limit.h"
#include "backend/profile/job_notice.h"
#include "core/error.h"
#include "core/format/atomic_file.h"
#include "traces/chrome_reader.h"
#include "traces/chrome_writer.h"
#include "traces/differences.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds between_looks{10};
/// Traces that are read to find out who came late.
constexpr int most_compared = 64;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The first step of the last window whose trace the rank has left, or failed to leave.
std::string done_key(int rank) { return fmt::format("profile/done/{}", rank); }

fs::path trace_path(const fs::path& folder, int rank) {
  return folder / fmt::format("trace.{}.json.gz", rank);
}

}  // namespace

void WindowResults::start(StepRange steps, Trace trace) {
  pending_ = std::async(std::launch::async, [this, steps, trace = std::move(trace)]() mutable {
    try {
      return leave(steps, std::move(trace));
    } catch (const std::exception& error) {
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

std::string WindowResults::leave(StepRange steps, Trace trace) const {
  const fs::path folder = folder_of_window(place_.run_folder, steps);
  create_folder(folder);
  std::optional<TcpStore> store;
  if (place_.session)
    store.emplace(place_.session->meeting.connect(place_.session->meeting.deadline()));
  write_chrome_trace(trace, trace_path(folder, place_.environment.rank));
  if (store) store->set(done_key(place_.environment.rank), std::to_string(steps.first));
  if (place_.environment.rank != 0) return {};
  if (store) wait_for_peers(steps, *store);
  return compare(steps, std::move(trace));
}

/// comparison.json comes last: who waits for the results waits for it.
std::string WindowResults::compare(StepRange steps, Trace own) const {
  const fs::path folder = folder_of_window(place_.run_folder, steps);
  const fs::path prediction = place_.run_folder / "predicted" / "trace.json.gz";
  std::optional<Trace> predicted;
  if (is_there(prediction)) predicted = read_chrome_trace(prediction).trace;
  std::vector<Trace> ranks{std::move(own)};
  // Where ranks share no file system, those of other hosts are not there.
  for (int rank = 1; rank < std::min(place_.environment.world, most_compared); ++rank) {
    if (is_there(trace_path(folder, rank)))
      ranks.push_back(read_chrome_trace(trace_path(folder, rank)).trace);
  }
  const Differences differences = find_differences(predicted ? &*predicted : nullptr, ranks);
  const std::string text = to_text(differences);
  write_atomically(folder / "comparison.txt", text);
  write_atomically(folder / "comparison.json", to_json(differences));
  return fmt::format("profiled {}  {}", text, folder.string());
}

void WindowResults::wait_for_peers(StepRange steps, TcpStore& store) const {
  const TimeLimit limit(place_.session->meeting.deadline());
  // A rank may be a window ahead.
  const auto is_done = [&](int rank) {
    const std::optional<std::string> first = store.peek(done_key(rank));
    return first && std::stoll(*first) >= steps.first;
  };
  for (int rank = 1; rank < place_.environment.world;) {
    if (is_done(rank)) {
      ++rank;
    } else if (gives_up_ || limit.passed()) {
      throw Error({.where = fmt::format("rank {}", rank),
                   .what = "did not leave its trace in time",
                   .way_out = "raise timeout in the job",
                   .code = ExitCode::outside});
    } else {
      std::this_thread::sleep_for(between_looks);
    }
  }
}

}  // namespace shardscope
