// A GPU that does nothing until it is waited for, and then goes through its streams in an order
// that a real one could take: everything that events do not forbid. What it is asked is kept. One
// thread queues and waits; any may ask for an event or a record.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/kernels/simt.h"
#include "tests/backend/cuda/fenced_memory.h"

namespace shardscope::test {

/// One call of the CUDA runtime.
struct RuntimeCall {
  std::string name;    ///< "cudaMemcpyAsync"; of a kernel its body, "shardscope::cuda::Add<float>"
  int stream = -1;     ///< -1: has none
  std::string detail;  ///< bytes, event or what else the call is about
  bool operator==(const RuntimeCall&) const = default;
};

/// What a call queues.
struct QueuedWork {
  enum class Kind : std::uint8_t { unnamed, kernel, copy, set };
  Kind kind = Kind::unnamed;
  std::string name;  ///< of a kernel its body
  int stream = -1;
  std::size_t bytes = 0;
  int copy_kind = 0;      ///< cudaMemcpyKind
  bool captured = false;  ///< kept for a graph
};

/// Hears what is asked of the device, and may stand around what runs.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  /// What shall run in place of `run`, once or, of captured work, in every replay.
  virtual std::function<void()> queued(const QueuedWork& work, std::function<void()> run) = 0;
  virtual void begin_capture() = 0;
  /// Of what was captured last.
  virtual void instantiated() = 0;
  /// Gives the launch a number, which it has when it runs.
  virtual int graph_launched() = 0;
  virtual void replays(int launch) = 0;
  virtual void allocated(const void* memory, std::size_t bytes) = 0;
  virtual void released(const void* memory) = 0;
};

/// The streams that are drained first where more than one may go on.
enum class Haste : std::uint8_t { first_streams, last_streams };

class StandInDevice {
 public:
  /// The one that the CUDA runtime's functions work on in this process.
  static StandInDevice& get();

  // For tests.
  /// Null: nobody listens.
  void tell(DeviceListener* listener) { listener_ = listener; }
  void use(Haste haste) { haste_ = haste; }
  void refuse_graphs(bool yes) { refuses_graphs_ = yes; }
  /// Copies may not be captured, as some calls may not.
  void refuse_captured_copies(bool yes) { refuses_captured_copies_ = yes; }
  void forget_calls() { calls_.clear(), violations_.clear(); }
  const std::vector<RuntimeCall>& calls() const { return calls_; }
  /// What a real device would answer with an error, or with wrong numbers.
  const std::vector<std::string>& violations() const { return violations_; }

  /// Makes, from the arguments of a launch, the work that it stands for.
  using Launcher =
      std::function<std::function<void()>(const void* body, const cuda::LaunchShape& shape)>;
  void teach(const std::string& body, Launcher launcher) { launchers_[body] = std::move(launcher); }

  // For the runtime's functions. Streams and events are numbered from 0; a stream that ends leaves
  // its number to a later one.
  void note(std::string_view call, int stream = -1, std::string detail = {});
  int make_stream();
  void end_stream(int stream);
  int make_event() { return events_++; }
  void* allocate(std::size_t bytes);
  void free(void* memory);
  void add_function(const void* host_function, const char* mangled);
  /// Gives the shared memory that a launch of it may ask for.
  int load(const void* host_function);
  void allow_shared_memory(const void* host_function, int bytes) {
    functions_.at(host_function).dynamic_shared_bytes = bytes;
  }
  void launch(const void* host_function, void** arguments, const cuda::LaunchShape& shape,
              int stream);
  bool may_copy() const { return !capturing_ || !refuses_captured_copies_; }
  void queue(QueuedWork work, std::function<void()> run);
  /// `run` is called again, while other streams go on, until it says that it has ended. Work of one
  /// chain runs in the order in which it was queued, on whatever streams.
  void queue_in_chain(const void* chain, int stream, std::function<bool()> run);
  void record(int event, int stream);
  void wait(int event, int stream);
  void synchronize(int stream);
  /// Whether what was queued before the event was last recorded has ended. Does not wait.
  bool has_come(int event);

  struct Graph;
  bool is_capturing();
  void begin_capture(int stream);
  /// None where a stream was not joined again, or graphs are refused.
  std::shared_ptr<Graph> end_capture();
  void instantiated() const;
  void launch(const std::shared_ptr<Graph>& graph, int stream);

 private:
  /// Something to run, or an event to mark or to wait for.
  struct Work {
    std::function<bool()> run;        ///< whether it has ended
    std::optional<int> marks, waits;  ///< moments: an event has a new one each time it is recorded
  };
  using Queues = std::vector<std::deque<Work>>;
  struct Capturing {
    int origin = 0;
    Queues queues;
    std::set<int> members;
    std::map<int, int> stream_of_moment;
  };

  /// The last work of a chain.
  struct Link {
    int stream = 0;
    int moment = 0;
  };
  enum class Progress : std::uint8_t { ended, waits_for_others, stuck };

  void add(int stream, Work work);
  /// Goes on as far as it can without waiting.
  Progress advance(Queues& queues, std::set<int>& marked);
  bool all_joined() const;
  void violate(std::string what) { violations_.push_back(std::move(what)); }

  std::recursive_mutex mutex_;  ///< of everything here but the settings
  DeviceListener* listener_ = nullptr;
  Haste haste_ = Haste::first_streams;
  bool refuses_graphs_ = false;
  bool refuses_captured_copies_ = false;
  std::vector<RuntimeCall> calls_;
  std::vector<std::string> violations_;
  std::map<std::string, Launcher> launchers_;
  struct Function {
    std::string body;
    bool loaded = false;
    int dynamic_shared_bytes = 48 << 10;
  };
  std::map<const void*, Function> functions_;
  FencedMemory fenced_;
  std::map<void*, std::unique_ptr<Arena>> memory_;
  Queues queues_;
  std::set<int> free_streams_;
  std::set<int> marked_;
  int events_ = 0, moments_ = 0;
  std::map<int, int> moment_of_event_;
  std::map<const void*, Link> chains_;  ///< since a capture began or ended
  std::optional<Capturing> capturing_;
};

struct StandInDevice::Graph {
  Queues queues;
};

}  // namespace shardscope::test
