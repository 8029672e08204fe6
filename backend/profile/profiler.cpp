#include "backend/profile/profiler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace shardscope {
namespace {

std::int64_t count_of(StepRange steps) { return steps.last - steps.first + 1; }

std::vector<Probe*> with_probes_of(const std::vector<std::unique_ptr<Instrument>>& instruments,
                                   std::vector<Probe*> probes) {
  for (const auto& instrument : instruments) {
    if (Probe* probe = instrument->probe()) probes.push_back(probe);
  }
  return probes;
}

}  // namespace

Profiler::Profiler(const ProfilerPlace& place)
    : place_(place),
      schedule_(place.job.profile, place.job.steps),
      results_({.run_folder = place.job.output,
                .environment = place.environment,
                .session = place.session}) {
  if (place.environment.rank == 0) notice_.emplace(place.job.output, own_notice(place.job.steps));
}

void Profiler::add_request(StopRequests& requests) {
  if (!place_.signal.take()) return;
  if (notice_) request_ = take_request(place_.job.output);
  if (request_)
    requests.profile_steps = request_->steps;
  else
    requests.profile = true;
}

bool Profiler::before_step(std::int64_t step) {
  const std::optional<StepRange> window = schedule_.at(step);
  if (window && !open_) open(*window);
  return open_ && !replays_;
}

void Profiler::open(StepRange steps) {
  open_ = steps;
  recorded_count_ = 0;
  recorded_.resize(
      std::max(recorded_.size(), static_cast<std::size_t>(steps.last - steps.first + 1)));
  usual_probes_ = place_.executor.probes();
  place_.executor.set_probes(with_probes_of(instruments_, usual_probes_));
  for (const auto& instrument : instruments_) instrument->start();
  // The one place that knows which windows are replayed. Their graph has to be captured anew.
  replays_ = std::ranges::any_of(
      instruments_, [](const auto& instrument) { return instrument->times_replays(); });
  if (replays_) place_.executor.forget_graph();
}

void Profiler::after_step(std::int64_t step, const StopRequests& requests) {
  if (open_) recorded_[recorded_count_++] = place_.executor.recorder().last();
  if (open_ && step == open_->last) close(step);
  if (requests.profile || requests.profile_steps > 0) answer(step, requests);
  collect_results(false);
}

void Profiler::answer(std::int64_t step, const StopRequests& requests) {
  const bool is_request = requests.profile_steps > 0;
  const int steps = is_request ? requests.profile_steps : place_.job.profile.steps;
  const std::optional<StepRange> window = schedule_.ask(step + 1, steps);
  if (!notice_) return;
  const std::string reason = window ? "" : why_none(step);
  if (!window) say("no window: " + reason);
  if (!request_) return;
  // Before the next step, in which another request may be taken.
  window ? notice_->open(request_->id, *window) : notice_->refuse(request_->id, reason);
  request_.reset();
}

std::string Profiler::why_none(std::int64_t step) const {
  if (step == place_.job.steps) return "there is no further step";
  if (open_) return fmt::format("steps {}-{} are being profiled", open_->first, open_->last);
  return fmt::format("the job's own begins with step {}", step + 1);
}

void Profiler::close(std::int64_t last_step) {
  find_clock();
  for (const auto& instrument : instruments_) instrument->stop();
  place_.executor.set_probes(usual_probes_);
  const StepRange planned = *open_;
  const StepRange steps{.first = planned.first, .last = last_step};
  open_.reset();
  const bool is_free = results_.is_free(place_.longest_stall);
  collect_results(false);
  if (notice_) notice_->close(steps);
  if (!is_free) return results_.skip(steps);
  Trace trace = trace_of_window(steps);
  if (steps.last < planned.last)
    trace.recording.notes.push_back(fmt::format("{} of {} steps, because the run was stopped",
                                                count_of(steps), count_of(planned)));
  results_.start(steps, std::move(trace));
}

Trace Profiler::trace_of_window(StepRange steps) {
  std::vector<const RecordedStep*> recorded;
  for (std::size_t i = 0; i < recorded_count_; ++i) recorded.push_back(&recorded_[i]);
  const std::int64_t base_ns = recorded.front()->begin_ns;
  const RecordingPlace place{.device = place_.device,
                             .local_rank = place_.environment.local_rank,
                             .base_monotonic_ns = base_ns,
                             .base_wall_ns = 0};
  Trace trace = replays_ ? trace_of_replays(place_.executor, recorded, place)
                         : profiled_trace(place_.executor, recorded, place);
  for (const auto& instrument : instruments_) {
    instrument->add_to(
        trace, {.base_monotonic_ns = base_ns, .first_step = steps.first, .last_step = steps.last});
  }
  note_clock(trace, base_ns);
  if (replays_) add_memory_of_replays(place_.executor, trace);
  sort_measures(trace);
  return trace;
}

void Profiler::find_clock() {
  TcpStore* store = place_.session ? &place_.session->meeting.store() : nullptr;
  clock_ = common_clock(place_.environment, store,
                        {.number = ++clock_meetings_, .deadline = place_.deadline});
}

void Profiler::note_clock(Trace& trace, std::int64_t base_monotonic_ns) const {
  trace.base_ns = base_monotonic_ns + clock().offset_ns;
  trace.recording.clock = clock_.method;
  trace.recording.clock_residual = clock().residual;
}

void Profiler::set_clock(Trace& trace, std::int64_t base_monotonic_ns) {
  find_clock();
  note_clock(trace, base_monotonic_ns);
}

void Profiler::finish() {
  if (open_ && recorded_count_ > 0) close(recorded_[recorded_count_ - 1].step);
  collect_results(true);
}

void Profiler::collect_results(bool wait) {
  for (WindowOutcome& outcome : results_.take(wait)) {
    if (notice_ && !outcome.failed.empty()) notice_->fail(outcome.steps, outcome.failed);
    if (place_.tells_results || !outcome.failed.empty()) say(outcome.text);
  }
}

void Profiler::say(std::string_view text) {
  if (text.empty()) return;
  if (!news_.empty()) news_ += "\n";
  news_ += text;
}

std::string Profiler::take_news() { return std::exchange(news_, {}); }

}  // namespace shardscope
