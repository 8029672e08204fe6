#include "backend/profile/window_results.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/time_limit.h"
#include "backend/profile/job_notice.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
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

/// What the rank is done with: WindowsDone as text.
std::string done_key(int rank) { return fmt::format("profile/done/{}", rank); }

/// Half of what others wait for rank 0 before they take it for lost.
milliseconds longest_wait(const JobSession& session) { return session.meeting.deadline() / 2; }

std::string text_of(StepRange steps) {
  return steps.first == steps.last ? fmt::format("step {}", steps.first)
                                   : fmt::format("steps {}-{}", steps.first, steps.last);
}

fs::path trace_path(const fs::path& folder, int rank) {
  return folder / fmt::format("trace.{}.json.gz", rank);
}

}  // namespace

bool WindowResults::is_free(milliseconds longest) const {
  return !pending_.valid() || pending_.wait_for(longest) == std::future_status::ready;
}

void WindowResults::start(StepRange steps, Trace trace) {
  pending_ = std::async(std::launch::async, [this, steps, trace = std::move(trace)]() mutable {
    try {
      return leave(steps, std::move(trace));
    } catch (const std::exception& error) {
      return WindowOutcome{
          .steps = steps,
          .text = fmt::format("rank {}: the profile of {} is not complete: {}",
                              place_.environment.rank, text_of(steps), error.what()),
          .failed = error.what()};
    }
  });
}

std::vector<WindowOutcome> WindowResults::take(bool wait) {
  std::vector<WindowOutcome> outcomes;
  if (!pending_.valid() || (!wait && !is_free(milliseconds(0)))) return outcomes;
  outcomes.push_back(pending_.get());
  for (const StepRange& steps : std::exchange(skipped_, {}))
    outcomes.push_back(tell_skipped(steps));
  return outcomes;
}

WindowOutcome WindowResults::tell_skipped(StepRange steps) {
  const std::string reason = "it was not done with the window before";
  done_.add(steps.first, reason);
  const int rank = place_.environment.rank;
  if (place_.session) place_.session->meeting.store().set(done_key(rank), to_text(done_));
  return {.steps = steps,
          .text = fmt::format("rank {}: {} left out: {}", rank, text_of(steps), reason),
          .failed = fmt::format("rank {} left these steps out: {}", rank, reason)};
}

WindowOutcome WindowResults::leave(StepRange steps, Trace trace) {
  const int rank = place_.environment.rank;
  const std::string failure = write(steps, trace);
  std::optional<TcpStore> store;
  done_.add(steps.first, failure);
  if (place_.session) {
    store.emplace(place_.session->meeting.connect(place_.session->meeting.deadline()));
    store->set(done_key(rank), to_text(done_));
  }
  if (rank != 0) {
    if (failure.empty()) return {.steps = steps};
    return {.steps = steps,
            .text = fmt::format("rank {}: no trace of {}: {}", rank, text_of(steps), failure),
            .failed = failure};
  }
  std::vector<MissingTrace> missing;
  if (!failure.empty()) missing.push_back({.rank = rank, .reason = failure});
  if (store) std::ranges::copy(wait_for_peers(steps, *store), std::back_inserter(missing));
  return compare(steps, std::move(trace), std::move(missing));
}

std::string WindowResults::write(StepRange steps, const Trace& trace) const {
  try {
    const fs::path folder = folder_of_window(place_.run_folder, steps);
    create_folder(folder);
    write_chrome_trace(trace, trace_path(folder, place_.environment.rank));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// comparison.json comes last: who waits for the results waits for it.
WindowOutcome WindowResults::compare(StepRange steps, Trace own,
                                     std::vector<MissingTrace> missing) const {
  const fs::path folder = folder_of_window(place_.run_folder, steps);
  const fs::path prediction = place_.run_folder / "predicted" / "trace.json.gz";
  std::optional<Trace> predicted;
  if (is_there(prediction)) predicted = read_chrome_trace(prediction).trace;
  std::vector<Trace> ranks{std::move(own)};
  for (int rank = 1; rank < std::min(place_.environment.world, most_compared); ++rank) {
    if (std::ranges::find(missing, rank, &MissingTrace::rank) != missing.end()) continue;
    try {
      ranks.push_back(read_chrome_trace(trace_path(folder, rank)).trace);
    } catch (const Error& error) {
      // Where ranks share no file system, those of other hosts are not there.
      missing.push_back({.rank = rank, .reason = error.what()});
    }
  }
  Differences differences = find_differences(predicted ? &*predicted : nullptr, ranks);
  differences.missing = std::move(missing);
  const std::string text = to_text(differences);
  write_atomically(folder / "comparison.txt", text);
  write_atomically(folder / "comparison.json", to_json(differences));
  return {.steps = steps, .text = fmt::format("profiled {}  {}", text, folder.string())};
}

std::vector<MissingTrace> WindowResults::wait_for_peers(StepRange steps, TcpStore& store) const {
  const TimeLimit limit(longest_wait(*place_.session));
  std::vector<MissingTrace> missing;
  for (int rank = 1; rank < place_.environment.world;) {
    const WindowsDone done = windows_done_of(store.peek(done_key(rank)).value_or("0"));
    if (done.last >= steps.first) {  // it may be a window ahead
      if (const LostTrace* lost = done.find(steps.first))
        missing.push_back({.rank = rank, .reason = lost->reason});
      ++rank;
    } else if (limit.passed()) {
      const double waited_s = std::chrono::duration<double>(limit.length()).count();
      missing.push_back(
          {.rank = rank, .reason = fmt::format("it was not written within {:.3g} s", waited_s)});
      ++rank;
    } else if (gives_up_) {
      throw Error({.where = fmt::format("rank {}", rank),
                   .what = "had not left its trace when the run ended",
                   .code = ExitCode::outside});
    } else {
      std::this_thread::sleep_for(between_looks);
    }
  }
  return missing;
}

}  // namespace shardscope
