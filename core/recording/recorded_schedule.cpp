#include "core/recording/recorded_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/recorded_operator.h"

namespace shardscope {
namespace {

using LaneIndex = ProgramWriter::LaneIndex;
constexpr std::size_t most_lanes = 250;

/// An operator, or a node of autograd, that is running on a thread.
struct Running {
  RecordedCall call;        ///< its tensors only where they are needed: of few operators
  std::string_view inputs;  ///< as the log describes them
  std::uint32_t name = 0;
  std::uint64_t serial = 0;  ///< of all that ran, from 1
  bool is_node = false;
  bool has_inner = false;
  OwnerId owner;
  std::vector<std::uint32_t> kernels;  ///< operations whose work its results complete
  std::map<std::uint32_t, int> launches;
};

struct Thread {
  std::vector<Running> running;
  std::vector<OwnerId> modules;  ///< whose forward runs
  bool is_autograds = false;     ///< it runs nodes, and no module's forward but again
  int tuning = 0;                ///< benchmarks of kernels, one inside the other
};

OperationKind kind_of_collective(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, OperationKind>, 8> kinds{
      {{"all_reduce", OperationKind::all_reduce},
       {"all_gather", OperationKind::all_gather},
       {"reduce_scatter", OperationKind::reduce_scatter},
       {"broadcast", OperationKind::broadcast},
       {"reduce", OperationKind::reduce},
       {"all_to_all", OperationKind::all_to_all},
       {"send", OperationKind::send},
       {"receive", OperationKind::receive}}};
  for (const auto& [known, kind] : kinds)
    if (known == name) return kind;
  return OperationKind::all_reduce;
}

/// Of ncclDataType_t.
Dtype dtype_of_nccl(std::int64_t type) {
  constexpr std::array types{Dtype::int8,    Dtype::uint8,   Dtype::int32,   Dtype::int32,
                             Dtype::int64,   Dtype::uint64,  Dtype::float16, Dtype::float32,
                             Dtype::float64, Dtype::bfloat16};
  return type >= 0 && static_cast<std::size_t>(type) < types.size()
             ? types[static_cast<std::size_t>(type)]
             : Dtype::uint8;
}

/// As torch's flop counter has them: of attention every pair of tokens, masked or not.
Flops model_flops_of(const DeviceWork& work) {
  const bool is_backward = work.kind == WorkKind::attention_backward;
  if (!is_backward && work.kind != WorkKind::attention_forward) return work.flops;
  AttentionShape whole = work.attention;
  whole.causal = false;
  return attention_flops(whole, is_backward);
}

/// Of one block or copy: more than any device has is damage.
Bytes bytes_in(const LogLine& line, std::size_t field) {
  constexpr std::int64_t most = std::int64_t{1} << 44;
  return {std::max<std::int64_t>(0, line.integer(field, most))};
}

/// Of a product's factors and result.
Bytes operand_bytes(const MatmulShape& shape, Dtype dtype) {
  const auto [batch, m, n, k] =
      std::array{static_cast<double>(shape.batch), static_cast<double>(shape.m),
                 static_cast<double>(shape.n), static_cast<double>(shape.k)};
  const double elements = batch * (m * k + k * n + m * n);
  return bytes_of(
      static_cast<std::int64_t>(std::min(elements, static_cast<double>(LogLine::largest >> 4))),
      dtype);
}

/// What a stream mostly does.
std::map<std::int64_t, Stream> streams_of(const EventLog& log) {
  std::map<std::int64_t, std::map<Stream, int>> counts;
  for (const LogLine& line : log.lines()) {
    if (line.kind == "nccl")
      ++counts[line.integer(0)]
              [line.text(1) == "all_gather" || line.text(1) == "broadcast" ? Stream::unshard
               : line.text(1) == "send" || line.text(1) == "receive"       ? Stream::send_receive
                                                                           : Stream::reduce];
    else if (line.kind == "copy")
      ++counts[line.integer(0)][Stream::copy];
    else if (line.kind == "kernel" || line.kind == "gemm" || line.kind == "dnn")
      ++counts[line.integer(0)][Stream::compute];
  }
  std::map<std::int64_t, Stream> streams{{0, Stream::compute}};
  for (const auto& [stream, count] : counts) {
    if (stream == 0) continue;
    const auto most =
        std::max_element(count.begin(), count.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    streams[stream] = most->first;
  }
  return streams;
}

/// The last line that belongs to a whole step.
std::size_t end_of_steps(const EventLog& log) {
  const auto& lines = log.lines();
  for (std::size_t i = lines.size(); i > 0; --i)
    if (lines[i - 1].kind == "phase" && lines[i - 1].text(0) == "step_end") return i;
  return lines.size();
}

class Reader {
 public:
  Reader(const EventLog& log, const RecordedPlace& place)
      : log_(log), streams_(streams_of(log)), schedule_(recording_.schedule), writer_(schedule_) {
    schedule_.memory = MemorySource::caching_allocator;
    schedule_.world = place.world;
    schedule_.rank = place.rank;
    lane_of(0);
  }

  Recording read() {
    recording_.is_whole = log_.is_whole();
    const std::size_t end = end_of_steps(log_);
    for (std::size_t i = 0; i < log_.lines().size(); ++i) {
      const LogLine& line = log_.lines()[i];
      if (i < end)
        read_line(line);
      else
        read_fact(line);
    }
    end_step();
    if (schedule_.operations.empty())
      throw Error(
          {.where = "recording",
           .what = "the command put nothing on a CUDA device",
           .way_out = "does the script use \"cuda\"? Run it with CUDA_VISIBLE_DEVICES unset",
           .code = ExitCode::no});
    if (schedule_.steps.empty()) make_one_step();
    name_purposes();
    return std::move(recording_);
  }

 private:
  void read_line(const LogLine& line) {
    if (line.kind == "tuning") return tuning(line);
    if (is_tuned(line)) return;
    if (line.kind == "op" || line.kind == "node") return begin(line);
    if (line.kind == "end") return end(line);
    if (line.kind == "kernel" || line.kind == "dnn") return kernel(line);
    if (line.kind == "gemm") return product(line);
    if (line.kind == "copy" || line.kind == "set") return copy(line);
    if (line.kind == "nccl") return collective(line);
    if (line.kind == "alloc") return allocate(line);
    if (line.kind == "free") return free(line);
    if (line.kind == "record") return record(line);
    if (line.kind == "wait") return wait(line);
    if (line.kind == "host_wait") return host_wait(line);
    if (line.kind == "sync") return synchronize(line);
    if (line.kind == "enter") return enter(line);
    if (line.kind == "leave") return leave(line);
    if (line.kind == "phase") return phase(line);
    if (line.kind == "purpose") return purpose(line);
    if (line.kind == "communicator") return communicator(line);
    if (line.kind == "group") {
      next_group_ = std::string(line.text(0));
      return;
    }
    read_fact(line);
  }

  // Kernels that are tuned: their memory is the script's, their launches are not.

  void tuning(const LogLine& line) {
    const int change = line.text(0) == "begin" ? 1 : -1;
    Thread& thread = threads_[line.thread];
    thread.tuning = std::max(0, thread.tuning + change);
  }

  bool is_tuned(const LogLine& line) {
    constexpr std::array kept{"alloc", "free", "purpose", "group", "communicator"};
    const auto thread = threads_.find(line.thread);
    if (thread == threads_.end() || thread->second.tuning == 0) return false;
    if (std::ranges::find(kept, line.kind) != kept.end()) return false;
    if (line.kind == "kernel" || line.kind == "gemm" || line.kind == "dnn")
      ++recording_.tuning_kernels;
    return true;
  }

  /// What holds of the whole process.
  void read_fact(const LogLine& line) {
    if (line.kind == "unknown") recording_.unknown.emplace_back(line.text(0));
    if (line.kind == "torch") recording_.torch = line.text(0);
    if (line.kind == "statistics") statistics(line);
  }

  /// A rank uses one device; of several the one that it used most.
  void statistics(const LogLine& line) {
    const RecordedPeaks peaks{
        .allocated = bytes_in(line, 1), .active = bytes_in(line, 2), .reserved = bytes_in(line, 3)};
    if (!recording_.peaks || peaks.reserved > recording_.peaks->reserved) recording_.peaks = peaks;
  }

  // Names and places

  std::uint32_t intern(std::string_view name) {
    const auto [found, fresh] =
        names_.try_emplace(std::string(name), static_cast<std::uint32_t>(schedule_.names.size()));
    if (fresh) schedule_.names.emplace_back(name);
    return found->second;
  }

  std::uint32_t intern(const DeviceWork& work) {
    const auto [found, fresh] =
        works_.try_emplace(work, static_cast<std::uint32_t>(schedule_.works.size()));
    if (fresh) schedule_.works.push_back(work);
    return found->second;
  }

  LaneIndex lane_of(std::int64_t stream) {
    const auto known = lanes_.find(stream);
    if (known != lanes_.end()) return known->second;
    if (lanes_.size() >= most_lanes)
      throw Error({.where = "recording", .what = "work on more than 250 streams is not read"});
    const auto kind = streams_.find(stream);
    const LaneIndex lane = writer_.add_lane(
        {.name = stream == 0 ? "compute" : fmt::format("stream {}", stream),
         .stream = kind == streams_.end() ? Stream::compute : kind->second,
         .pool_place = stream == 0 ? Lane::no_pool : static_cast<std::int32_t>(stream - 1)});
    lanes_[stream] = lane;
    return lane;
  }

  Phase phase_of(const Thread& thread) const {
    if (schedule_.steps.empty()) return Phase::init;
    if (is_optimizing_) return Phase::optimizer;
    if (thread.is_autograds) return Phase::backward;  // hooks between nodes, too
    for (const Running& one : thread.running)
      if (one.is_node) return Phase::backward;
    if (!thread.modules.empty() || !has_backward_) return Phase::forward;
    return Phase::clip;
  }

  static std::uint64_t serial_now(const Thread& thread) {
    return thread.running.empty() ? 0 : thread.running.back().serial;
  }

  OwnerId owner_of(const Thread& thread) const {
    for (auto one = thread.running.rbegin(); one != thread.running.rend(); ++one)
      if (one->is_node) return thread.modules.empty() ? one->owner : thread.modules.back();
    return thread.modules.empty() ? OwnerId{} : thread.modules.back();
  }

  std::uint32_t kernel_name(const LogLine& line) {
    return intern(line.kind == "dnn" ? "cuDNN" : log_.text(line.integer(1)));
  }

  std::uint32_t name_now(const Thread& thread) {
    return thread.running.empty() ? intern("outside of operators") : thread.running.back().name;
  }

  // Operators

  void begin(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const bool is_node = line.kind == "node";
    const std::string_view name = log_.text(line.integer(0));
    Running one{.serial = ++begun_, .is_node = is_node};
    one.call.name = is_node ? std::string(name) : operator_name(name);
    one.name = intern(one.call.name);
    one.inputs = log_.text(line.integer(1));
    const std::int64_t sequence = line.integer(2);
    if (is_node) {
      const auto known = owners_of_forward_.find(sequence);
      if (known != owners_of_forward_.end()) one.owner = known->second;
      has_backward_ = true;
      thread.is_autograds = line.thread != module_thread_;
    } else if (sequence >= 0 && !thread.modules.empty()) {
      owners_of_forward_[sequence] = thread.modules.back();
    }
    if (!thread.running.empty()) thread.running.back().has_inner = true;
    thread.running.push_back(std::move(one));
  }

  void end(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    if (thread.running.empty()) return;
    Running one = std::move(thread.running.back());
    thread.running.pop_back();
    if (!one.kernels.empty()) {
      one.call.inputs = tensors_of(one.inputs);
      one.call.flags = flags_of(one.inputs);
      one.call.outputs = tensors_of(log_.text(line.integer(0)));
    }
    for (const std::uint32_t kernel : one.kernels) {
      const DeviceWork work = work_of(one.call, one.launches[kernel]);
      Operation& operation = schedule_.operations[kernel];
      operation.work = intern(work);
      operation.bytes = work.bytes;
      operation.flops = model_flops_of(work);
      operation.dtype = work.dtype;
    }
    if (!one.has_inner && !one.is_node && one.kernels.empty() && !schedule_.steps.empty())
      writer_.add(HostActionKind::dispatch, 0, 0);
  }

  Operation operation_on(LaneIndex lane, const Thread& thread, std::uint32_t name) {
    const bool recomputes = !thread.modules.empty() && phase_of(thread) == Phase::backward;
    return {
        .name = name,
        .stream = schedule_.program.lanes[lane].stream,
        .phase = phase_of(thread),
        .recomputed = recomputes,
        .step = std::max<std::int32_t>(0, static_cast<std::int32_t>(schedule_.steps.size()) - 1),
        .owner = owner_of(thread),
        .detail = Operation::no_kernel};
  }

  std::uint32_t launch(LaneIndex lane, const Operation& operation) {
    return writer_.launch(lane, operation).value;
  }

  OperationKind compute_kind() const {
    return is_optimizing_ ? OperationKind::optimizer : OperationKind::compute;
  }

  /// The operator whose work a kernel does: the innermost one, but of attention the one that
  /// PyTorch dispatched on, whose tensors say what is computed. Null: none runs, or a whole graph
  /// of torch.compile does, whose tensors are not those of one kernel.
  static Running* asking_for_kernel(Thread& thread) {
    if (thread.running.empty() || thread.running.back().call.name.starts_with("CompiledFunction"))
      return nullptr;
    for (Running& one : thread.running)
      if (one.call.name.starts_with("aten._scaled_dot_product_")) return &one;
    return &thread.running.back();
  }

  void kernel(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const LaneIndex lane = lane_of(line.integer(0));
    ++recording_.kernels;
    Running* const asking = asking_for_kernel(thread);
    if (asking != nullptr) {
      Running& one = *asking;
      // Kernels of one operator that follow each other are one operation.
      const bool follows = !one.kernels.empty() && one.kernels.back() == last_on_lane_[lane];
      if (follows) {
        ++one.launches[one.kernels.back()];
        return;
      }
    } else {
      ++recording_.unseen_kernels;
    }
    Operation operation =
        operation_on(lane, thread, asking == nullptr ? kernel_name(line) : asking->name);
    operation.kind = compute_kind();
    if (asking == nullptr) operation.work = intern(DeviceWork{});
    const std::uint32_t id = launch(lane, operation);
    last_on_lane_[lane] = id;
    if (asking == nullptr) return;
    asking->kernels.push_back(id);
    asking->launches[id] = 1;
  }

  void product(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const LaneIndex lane = lane_of(line.integer(0));
    ++recording_.kernels;
    constexpr std::int64_t most = std::int64_t{1} << 31;
    const RecordedProduct product{.shape = {.batch = line.integer(4, most),
                                            .m = line.integer(1, most),
                                            .n = line.integer(2, most),
                                            .k = line.integer(3, most)},
                                  .type = static_cast<int>(line.integer(5))};
    const RecordedCall none;
    const RecordedCall& call = thread.running.empty() ? none : thread.running.back().call;
    DeviceWork work = work_of(call, 1, product);
    const MatmulShape& shape = product.shape;
    work.bytes = operand_bytes(shape, work.dtype);
    Operation operation = operation_on(lane, thread, name_now(thread));
    operation.kind = compute_kind();
    operation.work = intern(work);
    operation.bytes = work.bytes;
    operation.flops = work.flops;
    operation.dtype = work.dtype;
    last_on_lane_[lane] = launch(lane, operation);
    if (!thread.running.empty()) thread.running.back().has_inner = true;
  }

  void copy(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const LaneIndex lane = lane_of(line.integer(0));
    const bool is_set = line.kind == "set";
    const Bytes bytes = bytes_in(line, is_set ? 1 : 2);
    Operation operation = operation_on(lane, thread, name_now(thread));
    operation.kind = is_set ? compute_kind() : OperationKind::copy;
    operation.work = intern(DeviceWork{.kind = is_set ? WorkKind::fill : WorkKind::copy,
                                       .dtype = Dtype::uint8,
                                       .bytes = is_set ? bytes : bytes * 2});
    operation.bytes = bytes;
    last_on_lane_[lane] = launch(lane, operation);
    if (!thread.running.empty()) thread.running.back().has_inner = true;
  }

  void collective(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const LaneIndex lane = lane_of(line.integer(0));
    const auto group = groups_.find(line.integer(2));
    if (group == groups_.end()) return;
    const OperationKind kind = kind_of_collective(line.text(1));
    const auto ranks =
        static_cast<std::int64_t>(schedule_.groups[group->second.value].ranks.size());
    constexpr std::int64_t most_elements = std::int64_t{1} << 36;
    const std::int64_t count = std::max<std::int64_t>(0, line.integer(3, most_elements));
    Collective collective{.group = group->second,
                          .elements_in = count,
                          .elements_out = count,
                          .dtype = dtype_of_nccl(line.integer(4))};
    if (kind == OperationKind::all_gather) collective.elements_out = count * ranks;
    if (kind == OperationKind::reduce_scatter) collective.elements_in = count * ranks;
    auto& all = schedule_.collectives;
    const auto same = std::find(all.begin(), all.end(), collective);
    Operation operation = operation_on(lane, thread, intern(fmt::format("nccl.{}", line.text(1))));
    operation.kind = kind;
    operation.detail = static_cast<std::uint32_t>(same - all.begin());
    if (same == all.end()) all.push_back(collective);
    operation.dtype = collective.dtype;
    operation.bytes =
        bytes_of(std::max(collective.elements_in, collective.elements_out), collective.dtype);
    last_on_lane_[lane] = launch(lane, operation);
    if (!thread.running.empty()) thread.running.back().has_inner = true;
  }

  void communicator(const LogLine& line) {
    constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
    const std::int64_t size = std::max<std::int64_t>(1, line.integer(2, most_ranks));
    std::vector<int> ranks;
    std::size_t begin = 0;
    while (begin < next_group_.size()) {
      const std::size_t end = std::min(next_group_.find(',', begin), next_group_.size());
      ranks.push_back(std::atoi(next_group_.substr(begin, end - begin).c_str()));
      begin = end + 1;
    }
    const bool is_told = static_cast<std::int64_t>(ranks.size()) == size;
    next_group_.clear();
    groups_[line.integer(0)] = GroupId::of(schedule_.groups.size());
    schedule_.groups.push_back(
        {.name = size == schedule_.world ? "world" : fmt::format("group {}", line.integer(0)),
         .ranks = is_told ? Ranks(std::move(ranks)) : Ranks::up_to(static_cast<int>(size))});
  }

  // Memory

  void allocate(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    const BufferId id = BufferId::of(schedule_.buffers.size());
    const LaneIndex lane = lane_of(line.integer(2));
    Buffer buffer{.name = name_now(thread),
                  .category = category_now(thread, lane),
                  .lane = lane,
                  .bytes = bytes_in(line, 1),
                  .owner = owner_of(thread)};
    if (!schedule_.steps.empty()) buffer.allocated_by = OperationId{writer_.next_operation()};
    schedule_.buffers.push_back(buffer);
    born_.push_back({phase_of(thread), serial_now(thread)});
    live_[line.integer(0)] = id;
    writer_.add(HostActionKind::allocate, lane, id.value);
  }

  void free(const LogLine& line) {
    const auto known = live_.find(line.integer(0));
    if (known == live_.end()) return;
    Buffer& buffer = schedule_.buffers[known->second.value];
    if (const std::uint32_t next = writer_.next_operation(); next > 0 && !schedule_.steps.empty())
      buffer.freed_by = OperationId{next - 1};
    const Thread& thread = threads_[line.thread];
    const Birth& birth = born_[known->second.value];
    if (buffer.category == MemoryCategory::temporaries) {
      // What a forward makes and a backward lets go was kept for it; what an operator takes and
      // gives back is its scratch.
      if (birth.phase == Phase::forward && phase_of(thread) != Phase::forward)
        buffer.category = MemoryCategory::activations;
      else if (birth.serial != 0 && birth.serial == serial_now(thread))
        buffer.category = MemoryCategory::workspace;
    }
    writer_.add(HostActionKind::free, buffer.lane, known->second.value);
    live_.erase(known);
  }

  MemoryCategory category_now(const Thread& thread, LaneIndex lane) const {
    if (schedule_.program.lanes[lane].stream != Stream::compute)
      return MemoryCategory::communication;
    return phase_of(thread) == Phase::init ? MemoryCategory::inputs : MemoryCategory::temporaries;
  }

  void purpose(const LogLine& line) {
    const auto known = live_.find(line.integer(1));
    if (known == live_.end()) return;
    Buffer& buffer = schedule_.buffers[known->second.value];
    if (line.text(0) == "parameters") buffer.category = MemoryCategory::parameters;
    if (line.text(0) == "gradients") buffer.category = MemoryCategory::gradients;
    if (line.text(0) == "optimizer_states") buffer.category = MemoryCategory::optimizer_states;
  }

  /// cuBLAS's workspace is asked for inside its first product and stays.
  void name_purposes() {
    for (Buffer& buffer : schedule_.buffers) {
      const std::string_view name = schedule_.names[buffer.name];
      const bool stays = !buffer.freed_by && buffer.category == MemoryCategory::temporaries;
      if (stays && name.find("mm.") != std::string_view::npos)
        buffer.category = MemoryCategory::workspace;
    }
  }

  // Streams

  void record(const LogLine& line) {
    const LaneIndex lane = lane_of(line.integer(0));
    events_[std::string(line.text(1))] = writer_.record_event(lane);
  }

  void wait(const LogLine& line) {
    const auto event = events_.find(std::string(line.text(1)));
    if (event != events_.end()) writer_.wait_event(lane_of(line.integer(0)), event->second);
  }

  void host_wait(const LogLine& line) {
    const auto event = events_.find(std::string(line.text(0)));
    if (event != events_.end()) writer_.add(HostActionKind::host_wait, 0, event->second);
  }

  void synchronize(const LogLine& line) {
    const std::int64_t stream = line.integer(0);
    if (stream >= 0) return writer_.add(HostActionKind::host_sync, lane_of(stream), 0);
    for (std::size_t lane = 0; lane < schedule_.program.lanes.size(); ++lane)
      writer_.add(HostActionKind::host_sync, static_cast<LaneIndex>(lane), 0);
  }

  // Modules and steps

  void enter(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    if (schedule_.steps.empty()) {
      module_thread_ = line.thread;
      begin_step();
    }
    const std::string_view name = log_.text(line.integer(0));
    const auto [found, fresh] =
        owner_ids_.try_emplace(std::string(name), OwnerId::of(schedule_.owners.size()));
    if (fresh) schedule_.owners.emplace_back(name);
    thread.modules.push_back(found->second);
  }

  void leave(const LogLine& line) {
    Thread& thread = threads_[line.thread];
    if (!thread.modules.empty()) thread.modules.pop_back();
  }

  void phase(const LogLine& line) {
    is_optimizing_ = line.text(0) == "optimizer";
    if (is_optimizing_) return;
    if (schedule_.steps.empty()) begin_step();
    end_step();
    begin_step();
    has_backward_ = false;
  }

  void begin_step() {
    schedule_.steps.push_back({.label = std::to_string(schedule_.steps.size() + 1),
                               .operations = {writer_.next_operation(), writer_.next_operation()},
                               .actions = {writer_.next_action(), writer_.next_action()}});
  }

  void end_step() {
    if (schedule_.steps.empty()) return;
    Step& step = schedule_.steps.back();
    step.operations.end = writer_.next_operation();
    step.actions.end = writer_.next_action();
    if (step.actions.size() == 0) schedule_.steps.pop_back();
  }

  void make_one_step() {
    schedule_.steps.push_back({.label = "1",
                               .operations = {0, writer_.next_operation()},
                               .actions = {0, writer_.next_action()}});
  }

  const EventLog& log_;
  std::map<std::int64_t, Stream> streams_;
  Recording recording_;
  Schedule& schedule_;
  ProgramWriter writer_;

  std::unordered_map<std::string, std::uint32_t> names_;
  std::unordered_map<DeviceWork, std::uint32_t, DeviceWorkHash> works_;
  std::unordered_map<std::string, OwnerId> owner_ids_;
  std::unordered_map<std::int64_t, OwnerId> owners_of_forward_;  ///< by autograd's sequence number
  std::map<std::int64_t, LaneIndex> lanes_;                      ///< by stream
  std::map<LaneIndex, std::uint32_t> last_on_lane_;
  std::map<std::int64_t, GroupId> groups_;  ///< by communicator
  std::string next_group_;
  std::unordered_map<std::string, std::uint32_t> events_;
  std::unordered_map<std::int64_t, BufferId> live_;  ///< by address
  /// When a buffer was asked for: the phase, and the operator that ran; 0: none.
  struct Birth {
    Phase phase;
    std::uint64_t serial;
  };
  std::vector<Birth> born_;  ///< by buffer
  std::uint64_t begun_ = 0;  ///< operators and nodes
  std::map<int, Thread> threads_;
  int module_thread_ = 0;  ///< of the first forward
  bool is_optimizing_ = false, has_backward_ = false;
};

}  // namespace

Recording read_recording(const EventLog& log, const RecordedPlace& place) {
  return Reader(log, place).read();
}

}  // namespace shardscope
