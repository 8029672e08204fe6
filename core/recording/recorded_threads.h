// What each thread of a recorded process runs: modules, operators, nodes of autograd.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/recording/event_log.h"
#include "core/recording/recorded_names.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Kernels of one call that follow each other on a stream, which are one operation.
struct LaunchedKernels {
  std::uint32_t operation = 0;
  int launches = 1;
};

/// An operator, or a node of autograd, that is running.
struct RunningCall {
  std::uint32_t name = 0;    ///< of `Schedule::names`
  std::int64_t inputs = 0;   ///< the log's text that describes them
  std::uint64_t serial = 0;  ///< of all that ran, from 1
  bool is_node = false;
  bool has_inner = false;    ///< it called operators, or did work whose size the log tells
  bool has_product = false;  ///< it asked cuBLAS for a product
  OwnerId owner;             ///< of a node: the module of its forward
  std::vector<LaunchedKernels> kernels;  ///< whose work its results complete
};

struct RecordedThread {
  std::vector<RunningCall> running;  ///< outermost first
  std::vector<OwnerId> modules;      ///< whose forward runs
  bool is_autograds = false;         ///< it runs nodes, and no module's forward but again
  int tuning = 0;                    ///< benchmarks of kernels, one inside the other
  bool plays_graph = false;          ///< what it launches was captured
  bool has_issued_graph = false;
  std::uint64_t last_begun = 0;  ///< serial of the call that began last

  void play_graph(bool plays) {
    plays_graph = plays;
    has_issued_graph = false;
  }
  std::uint64_t serial() const { return running.empty() ? 0 : running.back().serial; }
};

class RecordedThreads {
 public:
  /// The log and the names must outlive this.
  RecordedThreads(const EventLog& log, const Schedule& schedule, RecordedNames& names)
      : log_(log), schedule_(schedule), names_(names) {}

  RecordedThread& of(int thread);

  /// Of lines `op` and `node`, `enter`, `leave` and `phase`. The first module's forward says which
  /// thread is the script's.
  void begin(const LogLine& line);
  void enter(const LogLine& line);
  void leave(const LogLine& line);
  void begin_optimizer() { is_optimizing_ = true; }
  void end_step();

  /// Whether the script waits for this thread's work: it does for its own thread and autograd's.
  bool holds_up_script(int thread) { return thread == script_thread_ || of(thread).is_autograds; }
  bool is_optimizing() const { return is_optimizing_; }
  Phase phase_of(const RecordedThread& thread) const;
  /// The module that a thread works for.
  static OwnerId owner_of(const RecordedThread& thread);
  /// The innermost call's name.
  std::uint32_t name_of(const RecordedThread& thread);

 private:
  std::uint32_t name_of_call(std::int64_t text, bool is_node);

  const EventLog& log_;
  const Schedule& schedule_;
  RecordedNames& names_;
  std::map<int, RecordedThread> threads_;
  RecordedThread* last_ = nullptr;  ///< of `last_number_`
  int last_number_ = 0;
  std::unordered_map<std::int64_t, OwnerId> owners_of_forward_;  ///< by autograd's sequence number
  std::vector<std::optional<std::uint32_t>> operator_names_, node_names_;  ///< by text
  std::uint64_t begun_ = 0;
  int script_thread_ = 0;
  bool is_optimizing_ = false, has_backward_ = false;
};

}  // namespace shardscope
