#include "backend/watch/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backend/base/process_identity.h"
#include "backend/base/time_limit.h"
#include "backend/comm/queued_collectives.h"
#include "backend/watch/flight_record.h"
#include "backend/watch/watch_keys.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

using std::chrono::milliseconds;
using Reports = std::vector<std::optional<RankStatement>>;

constexpr milliseconds look_interval{100};
constexpr milliseconds longest_answer{2000};   ///< of the store, and of a rank that is asked
constexpr milliseconds longest_verdict{2800};  ///< for ranks that do not judge
constexpr milliseconds longest_end{4000};      ///< from trouble to the end of this process
constexpr milliseconds time_for_cause{500};
constexpr milliseconds longest_writing{700};  ///< of all ranks' flight records
constexpr milliseconds head_start{300};       ///< of the rank that speaks
/// Since when a collective must be under way for a store that went away to matter: at the end of a
/// job the first rank to go may be the one that serves it.
constexpr Duration store_grace{500'000'000};

/// All ranks together ask the store 500 times a second at most.
milliseconds poll_interval(int world) {
  return std::max(milliseconds(200), milliseconds(2) * world);
}

/// "calls all_reduce, while ...; see there": without the rank, which stands beside it.
std::string text_without_rank(const Error& error) {
  const Error::Parts& parts = error.parts();
  std::string text =
      parts.where.empty() || parts.where.starts_with("rank ") ? "" : parts.where + ": ";
  text += parts.what;
  return parts.way_out.empty() ? text : text + "; " + parts.way_out;
}

}  // namespace

Watchdog::Watchdog(Meeting& meeting, std::filesystem::path folder)
    : meeting_(meeting), folder_(std::move(folder)), store_(meeting.connect(meeting.deadline())) {
  store_->leave_will(
      trouble_key,
      to_text({.kind = TroubleKind::lost, .rank = meeting.rank(), .text = "its process ended"}));
  thread_ = std::thread([this] { serve(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // Unwinding: what ends this rank is told by its will, when the connection closes.
  const bool in_order = std::uncaught_exceptions() == 0 || verdict_;
  ask_store([&](TcpStore& store) {
    if (in_order) store.withdraw_will();
    if (in_order && !verdict_) {
      store.set(left_key(meeting_.rank()), "");
      store.set(anyone_left_key, "");
    }
    store.add(ended_key, 1);
  });
}

/// False when the store is gone.
template <class Ask>
bool Watchdog::ask_store(Ask ask) {
  if (!store_) return false;
  try {
    ask(*store_);
    return true;
  } catch (const Error&) {
    store_.reset();
    return false;
  }
}

void Watchdog::watch(Communicator& world) {
  const std::lock_guard lock(mutex_);
  watched_ = &world;
}

void Watchdog::release() {
  const std::lock_guard lock(mutex_);
  watched_ = nullptr;
  queued_.clear();
}

void Watchdog::note_queued(std::uint64_t sequence, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  queued_.push_back({sequence, end});
}

void Watchdog::fail(const Error& error) {
  std::unique_lock lock(mutex_);
  const auto is_judged = [this] { return verdict_.has_value(); };
  // A connection that broke is the trace of something else, which is about to be told.
  changed_.wait_for(lock, time_for_cause, is_judged);
  if (!raised_) raised_ = Trouble{TroubleKind::failed, meeting_.rank(), text_without_rank(error)};
  changed_.notify_all();
  changed_.wait_for(lock, longest_end, is_judged);
  if (verdict_) throw Error(*verdict_);
  throw Error(error);
}

bool Watchdog::report(const Error& error) {
  const std::string text = text_without_rank(error);
  std::unique_lock lock(mutex_);
  const bool is_verdict = verdict_ && std::string_view(verdict_->what()) == error.what();
  if (!raised_ && !verdict_) raised_ = Trouble{TroubleKind::failed, meeting_.rank(), text};
  changed_.notify_all();
  changed_.wait_for(lock, longest_end, [this] { return verdict_.has_value(); });
  lock.unlock();
  if (!is_verdict && meeting_.hosted_by_launcher()) {
    try {
      meeting_.store().set(failure_key(meeting_.rank()), error.what());
    } catch (const Error&) {
      return true;  // there is no launcher any more
    }
  }
  if (meeting_.hosted_by_launcher()) return false;
  if (!trouble_ || trouble_->kind != TroubleKind::failed) return !is_verdict || judges_;
  return trouble_->rank == meeting_.rank() || (!is_verdict && trouble_->text != text);
}

void Watchdog::serve() {
  std::optional<Trouble> trouble;
  while (!trouble) {
    trouble = look();
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    if (!trouble) changed_.wait_for(lock, look_interval, [this] { return stopping_ || raised_; });
    if (stopping_) return;
  }
  handle(*trouble);
  wait_or_end_process();
}

std::optional<Trouble> Watchdog::look() {
  if (const std::optional<Trouble> mine = own_trouble()) return agree_on(*mine);
  return others_trouble();
}

std::optional<Trouble> Watchdog::own_trouble() {
  if (std::string failure = follow_queue(meeting_.deadline() + longest_end); !failure.empty())
    return Trouble{TroubleKind::queued, meeting_.rank(), std::move(failure)};
  {
    const std::lock_guard lock(mutex_);
    if (raised_) return raised_;
  }
  const auto limit = std::chrono::nanoseconds(meeting_.deadline()).count();
  const std::optional<Duration> since = recorder_.under_way_since();
  if (!since || (steady_now() - *since).ns < limit) return std::nullopt;
  return Trouble{TroubleKind::late, meeting_.rank(), "waited too long"};
}

/// What has ended on the device, and what starts there; returns what failed. Ends the process where
/// the device's driver does not answer within `limit`.
std::string Watchdog::follow_queue(milliseconds limit) {
  const CallTimeout::Call call(call_timeout_, limit);
  const std::lock_guard lock(mutex_);
  QueuedCollectives* queue = watched_ == nullptr ? nullptr : watched_->queued();
  if (queue == nullptr) return "";
  const std::vector<QueuedCollective> pending = queue->pending();
  const std::uint64_t oldest = pending.empty() ? queue->queued_count() : pending.front().number;
  const auto has_ended = [&](const Queued& queued) {
    const bool ended = queued.end <= oldest;
    if (ended) recorder_.complete(queued.sequence);
    return ended;
  };
  std::erase_if(queued_, has_ended);
  if (!queued_.empty()) recorder_.start(queued_.front().sequence);
  return queue->failure();
}

std::optional<Trouble> Watchdog::others_trouble() {
  const auto now = TimeLimit::Clock::now();
  if (now < next_poll_) return std::nullopt;
  next_poll_ = now + poll_interval(meeting_.world());
  std::optional<std::string> text;
  if (!ask_store([&](TcpStore& store) { text = store.peek(trouble_key); })) {
    const std::optional<Duration> since = recorder_.under_way_since();
    if (!since || steady_now() - *since < store_grace) return std::nullopt;
    return Trouble{TroubleKind::cut_off, 0, "the store that it serves does not answer"};
  }
  return text ? parse_trouble(*text) : early_leaver();
}

/// A peer of the collective under way that has left the job: it will not come.
std::optional<Trouble> Watchdog::early_leaver() {
  std::optional<Trouble> trouble;
  ask_store([&](TcpStore& store) {
    const std::optional<Duration> since = recorder_.under_way_since();
    if (!since || steady_now() - *since < store_grace || !store.peek(anyone_left_key)) return;
    const FlightSnapshot snapshot = recorder_.snapshot();
    const FlightEntry* entry = snapshot.under_way();
    for (const FlightSnapshot::Group& group : snapshot.groups)
      for (const int rank : group.ranks)
        if (entry && group.name == entry->group && !trouble && store.peek(left_key(rank)))
          trouble = Trouble{TroubleKind::lost, rank, "it has left the job"};
  });
  return trouble ? std::optional(agree_on(*trouble)) : std::nullopt;
}

/// The first trouble of the job.
Trouble Watchdog::agree_on(const Trouble& mine) {
  std::string first;
  ask_store([&](TcpStore& store) { first = store.offer(trouble_key, to_text(mine)); });
  return parse_trouble(first).value_or(mine);
}

void Watchdog::handle(const Trouble& trouble) {
  const TimeLimit end(longest_end);
  end_ = end;
  if (store_) store_->set_deadline(longest_answer);
  follow_queue(longest_end);  // something may have started since the last look
  const FlightSnapshot snapshot = recorder_.snapshot();
  const RankStatement mine = report_of(snapshot);
  ask_store([&](TcpStore& store) { store.set(report_key(meeting_.rank()), to_json(mine)); });
  abort_communicators(trouble.text);
  const Verdict verdict = agreed_verdict(trouble, mine);
  meeting_.expect_at_end(verdict.answered);
  write_record(verdict, snapshot);
  end_silent_ranks(trouble, verdict);
  wait_for_records(verdict);
  conclude(trouble, verdict);
}

void Watchdog::write_record(const Verdict& verdict, const FlightSnapshot& snapshot) const {
  if (folder_.empty()) return;
  const FlightRecord record{.rank = meeting_.rank(),
                            .world = meeting_.world(),
                            .deadline = {std::chrono::nanoseconds(meeting_.deadline()).count()},
                            .verdict = verdict,
                            .snapshot = snapshot};
  try {
    write_atomically(folder_ / fmt::format("flight.{}.json", meeting_.rank()), to_json(record));
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: no flight record: {}\n", meeting_.rank(), error.what());
  }
}

/// Those of this host: stopped, or so deep in the kernel that they will not end by themselves. Our
/// launcher does that for its own.
void Watchdog::end_silent_ranks(const Trouble& trouble, const Verdict& verdict) {
  if (meeting_.hosted_by_launcher()) return;
  if (trouble.kind == TroubleKind::cut_off) return end_process(meeting_.host_identity());
  ask_store([&](TcpStore& store) {
    for (const int rank : verdict.silent)
      if (const auto identity = store.peek(here_key(rank))) end_process(*identity);
  });
}

/// mpirun ends all ranks when the first one goes, which is the one that judged: it speaks.
void Watchdog::wait_for_records(const Verdict& verdict) {
  ask_store([&](TcpStore& store) {
    const TimeLimit limit(longest_writing);
    std::int64_t written = store.add(concluded_key, 1);
    while (judges_ && written < verdict.answered && !limit.passed()) {
      std::this_thread::sleep_for(milliseconds(5));
      written = store.add(concluded_key, 0);
    }
  });
  if (!judges_) std::this_thread::sleep_for(head_start);
}

void Watchdog::abort_communicators(const std::string& why) {
  const CallTimeout::Call call(call_timeout_, longest_end);
  const std::lock_guard lock(mutex_);
  if (watched_ == nullptr) return;
  if (QueuedCollectives* queue = watched_->queued()) queue->abort(why);
  watched_->abort(why);
}

/// One rank asks all others and judges; they take its verdict, or see for themselves where none
/// comes.
Verdict Watchdog::agreed_verdict(const Trouble& trouble, const RankStatement& mine) {
  const std::string own = std::to_string(meeting_.rank());
  std::optional<Verdict> verdict;
  const bool asked = ask_store([&](TcpStore& store) {
    judges_ = store.offer(judge_key, own) == own;
    if (judges_) {
      verdict = gather_and_judge(trouble);
      store.set(verdict_key, to_json(*verdict));
      return;
    }
    const TimeLimit limit(longest_verdict);
    while (!verdict && !limit.passed()) {
      if (const auto text = store.peek(verdict_key)) verdict = parse_verdict(*text);
      if (!verdict) std::this_thread::sleep_for(milliseconds(20));
    }
  });
  if (verdict) return *verdict;
  if (!asked) judges_ = true;
  Reports reports(static_cast<std::size_t>(meeting_.world()));
  reports[static_cast<std::size_t>(meeting_.rank())] = mine;
  return judge(trouble, reports, meeting_.deadline());
}

Verdict Watchdog::gather_and_judge(const Trouble& trouble) {
  Reports reports(static_cast<std::size_t>(meeting_.world()));
  std::set<int> missing;
  for (int rank = 0; rank < meeting_.world(); ++rank) missing.insert(rank);
  if (trouble.kind == TroubleKind::lost) missing.erase(trouble.rank);
  const TimeLimit limit(longest_answer);
  while (!missing.empty() && !limit.passed()) {
    std::erase_if(missing, [&](int rank) {
      auto& report = reports[static_cast<std::size_t>(rank)];
      if (const auto text = store_->peek(report_key(rank))) report = parse_report(*text);
      if (!report && store_->peek(left_key(rank)))
        report = RankStatement{.doing = {}, .last = {}, .groups = {}, .has_left = true};
      return report.has_value();
    });
    if (!missing.empty()) std::this_thread::sleep_for(milliseconds(20));
  }
  return judge(trouble, reports, meeting_.deadline());
}

Error Watchdog::error_of(const Verdict& verdict) const {
  const std::string records =
      folder_.empty() ? "see the logs of the ranks"
                      : fmt::format("see {}", (folder_ / "flight.<rank>.json").string());
  return Error({.where = {},
                .what = fmt::format("{}; {}", verdict.cause, verdict.doing),
                .way_out = records,
                .code = ExitCode::rank_lost});
}

void Watchdog::conclude(const Trouble& trouble, const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  trouble_ = trouble;
  verdict_ = error_of(verdict);
  changed_.notify_all();
}

/// The rank's own thread sits in the device, in a kernel or in somebody's library: nothing of it
/// can be unwound.
void Watchdog::wait_or_end_process() {
  std::unique_lock lock(mutex_);
  const milliseconds left(end_.milliseconds_left(longest_end));
  if (changed_.wait_for(lock, left, [this] { return stopping_; })) return;
  const bool told = meeting_.hosted_by_launcher() || !judges_;
  if (!told) fmt::print(stderr, "shardscope: {}\n", verdict_->what());
  ask_store([](TcpStore& store) { store.add(ended_key, 1); });
  std::fflush(stderr);
  ::_exit(static_cast<int>(ExitCode::rank_lost));
}

/// The driver's locks are held by a call of the rank's own thread that waits for the device: the
/// watchdog's thread cannot be used, nor what it works on. The others learn it from the will.
void Watchdog::end_stuck_process() {
  const FlightSnapshot snapshot = recorder_.snapshot();
  Reports reports(static_cast<std::size_t>(meeting_.world()));
  reports[static_cast<std::size_t>(meeting_.rank())] = report_of(snapshot);
  const Verdict verdict = judge({.kind = TroubleKind::cut_off,
                                 .rank = meeting_.rank(),
                                 .text = "a call of its GPU's driver does not come back"},
                                reports, meeting_.deadline());
  write_record(verdict, snapshot);
  fmt::print(stderr, "shardscope: {}\n", error_of(verdict).what());
  std::fflush(stderr);
  ::_exit(static_cast<int>(ExitCode::rank_lost));
}

}  // namespace shardscope
