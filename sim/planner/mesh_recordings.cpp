#include "sim/planner/mesh_recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace shardscope::planner {
namespace {

/// Thrown where the two recordings differ in more than sizes.
struct NotAlike {};

void require(bool alike) {
  if (!alike) throw NotAlike();
}

std::int64_t whole(std::int64_t value, std::int64_t parts) {
  require(value % parts == 0);
  return value / parts;
}

/// Above 1.
int smallest_divisor(int number) {
  int divisor = 2;
  while (number % divisor != 0) ++divisor;
  return divisor;
}

/// What three sizes of a group make of a number.
class Sizes {
 public:
  Sizes(std::int64_t one, std::int64_t other, std::int64_t wanted)
      : one_(one), other_(other), wanted_(wanted) {
    require(one != other);
  }

  /// a + b / ranks.
  std::int64_t share(std::int64_t at_one, std::int64_t at_other) const {
    if (at_one == at_other) return at_one;
    const std::int64_t b = whole((at_one - at_other) * one_ * other_, other_ - one_);
    return at_one - whole(b, one_) + whole(b, wanted_);
  }
  Bytes share(Bytes at_one, Bytes at_other) const { return {share(at_one.count, at_other.count)}; }
  Flops share(Flops at_one, Flops at_other) const { return {share(at_one.count, at_other.count)}; }

  /// a + b x ranks.
  std::uint32_t times(std::uint32_t at_one, std::uint32_t at_other) const {
    const std::int64_t b = whole(std::int64_t{at_other} - at_one, other_ - one_);
    const std::int64_t result = at_one + b * (wanted_ - one_);
    require(result > 0);
    return static_cast<std::uint32_t>(result);
  }

  std::int64_t one() const { return one_; }
  std::int64_t other() const { return other_; }
  std::int64_t wanted() const { return wanted_; }

 private:
  std::int64_t one_, other_, wanted_;
};

/// Behind the groups of all ranks, groups of neighbours as DeepSpeed makes them.
std::vector<Group> neighbours(const std::vector<Group>& like, std::int64_t ranks) {
  require(!like.empty());
  std::vector<Group> groups;
  for (const Group& group : like)
    if (group.ranks == like.front().ranks) groups.push_back(group);
  const auto world = static_cast<std::int64_t>(like.front().ranks.size());
  for (std::int64_t first = 0; first < world; first += ranks)
    groups.push_back(
        {.name = fmt::format("group {}", groups.size()),
         .ranks = Ranks::spaced(static_cast<int>(first), 1, static_cast<std::size_t>(ranks))});
  return groups;
}

/// A table of distinct values, for pairs of indices into those of the two recordings.
template <class Value>
class TableBetween {
 public:
  template <class Make>
  std::uint32_t at(std::uint32_t one, std::uint32_t other, const Make& make) {
    if (one >= places_.size()) places_.resize(one + 1);
    for (const auto& [of_other, place] : places_[one])
      if (of_other == other) return place;
    Value value = make();
    const auto equal = std::find(values_.begin(), values_.end(), value);
    const auto place = static_cast<std::uint32_t>(equal - values_.begin());
    if (equal == values_.end()) values_.push_back(std::move(value));
    places_[one].emplace_back(other, place);
    return place;
  }
  std::vector<Value> values() && { return std::move(values_); }

 private:
  /// By index into the first table: index into the other one, and into the values.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> places_;
  std::vector<Value> values_;
};

bool are_equal(const Unit& a, const Unit& b) {
  const auto all = [](const Unit& x) {
    return std::tie(x.name, x.class_name, x.slots, x.elements, x.unpadded_elements,
                    x.padded_elements, x.shard_elements, x.padding_elements_by_rank);
  };
  return all(a) == all(b);
}

/// The first recording, whose sizes become those wanted.
class Between {
 public:
  Between(const Schedule& one, const Schedule& other, const Sizes& sizes)
      : one_(one), other_(other), sizes_(sizes) {}

  Schedule result() {
    require_equal_tables();
    result_ = one_;
    result_.groups = neighbours(one_.groups, sizes_.wanted());
    each(result_.buffers, other_.buffers, [&](Buffer& a, const Buffer& b) { set(a, b); });
    each(result_.operands, other_.operands, [&](Operand& a, const Operand& b) { set(a, b); });
    each(result_.operations, other_.operations,
         [&](Operation& a, const Operation& b) { set(a, b); });
    each(result_.program.actions, other_.program.actions,
         [&](HostAction& a, const HostAction& b) { set(a, b); });
    result_.works = std::move(works_).values();
    result_.shapes.clear();
    result_.collectives = std::move(collectives_).values();
    return std::move(result_);
  }

 private:
  void require_equal_tables() const {
    require(one_.names == other_.names && one_.owners == other_.owners);
    require(one_.after == other_.after && one_.memory == other_.memory);
    require(one_.program.lanes == other_.program.lanes);
    require(one_.program.marks == other_.program.marks);
    require(one_.program.events == other_.program.events);
    require(one_.kernels.empty() && other_.kernels.empty());
    require(one_.groups == neighbours(one_.groups, sizes_.one()));
    require(other_.groups == neighbours(other_.groups, sizes_.other()));
    require(std::ranges::equal(one_.units, other_.units, are_equal));
    require(one_.slices.empty() && other_.slices.empty());
    require(one_.rank == 0 && other_.rank == 0 && one_.world == other_.world);
    require(std::ranges::equal(one_.steps, other_.steps, [](const Step& a, const Step& b) {
      return a.label == b.label && a.operations == b.operations && a.actions == b.actions;
    }));
  }

  template <class Value, class Set>
  static void each(std::vector<Value>& a, const std::vector<Value>& b, const Set& set) {
    require(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) set(a[i], b[i]);
  }

  void set(Buffer& a, const Buffer& b) const {
    const auto rest = [](const Buffer& x) {
      return std::tie(x.name, x.category, x.lane, x.on_host, x.copies, x.allocated_by, x.freed_by,
                      x.unit, x.owner);
    };
    require(rest(a) == rest(b));
    a.bytes = sizes_.share(a.bytes, b.bytes);
  }

  void set(Operand& a, const Operand& b) const {
    require(a.buffer == b.buffer && a.access == b.access);
    a.offset = sizes_.share(a.offset, b.offset);
    a.bytes = sizes_.share(a.bytes, b.bytes);
  }

  void set(HostAction& a, const HostAction& b) const {
    require(a.kind == b.kind && a.lane == b.lane);
    if (a.subject == b.subject) return;
    require(a.kind == HostActionKind::repeat);
    a.subject = sizes_.times(a.subject, b.subject);
  }

  void set(Operation& a, const Operation& b) {
    const auto rest = [](const Operation& x) {
      return std::tie(x.name, x.kind, x.stream, x.phase, x.dtype, x.micro_batch, x.recomputed,
                      x.step, x.unit, x.owner, x.issued_with_graph);
    };
    require(rest(a) == rest(b) && a.operands == b.operands && a.after == b.after);
    require(a.kind != OperationKind::send && a.kind != OperationKind::receive);
    a.bytes = sizes_.share(a.bytes, b.bytes);
    a.flops = sizes_.share(a.flops, b.flops);
    require((a.work == Operation::no_work) == (b.work == Operation::no_work));
    if (a.work != Operation::no_work)
      a.work = works_.at(a.work, b.work, [&] { return work(one_.works[a.work], b.work); });
    a.shapes = Operation::no_shapes;
    if (is_collective(a.kind))
      a.detail = collectives_.at(a.detail, b.detail, [&] {
        return collective(one_.collectives[a.detail], other_.collectives[b.detail]);
      });
    else
      require(a.detail == b.detail);
  }

  DeviceWork work(DeviceWork a, std::uint32_t of_other) const {
    const DeviceWork& b = other_.works[of_other];
    a.bytes = sizes_.share(a.bytes, b.bytes);
    a.flops = sizes_.share(a.flops, b.flops);
    DeviceWork rest = b;
    rest.bytes = a.bytes;
    rest.flops = a.flops;
    require(a == rest);
    return a;
  }

  Collective collective(Collective a, const Collective& b) const {
    require(a.group == b.group && a.dtype == b.dtype && a.peer == b.peer);
    a.elements_in = sizes_.share(a.elements_in, b.elements_in);
    a.elements_out = sizes_.share(a.elements_out, b.elements_out);
    return a;
  }

  const Schedule& one_;
  const Schedule& other_;
  const Sizes& sizes_;
  Schedule result_;
  TableBetween<DeviceWork> works_;
  TableBetween<Collective> collectives_;
};

}  // namespace

std::optional<Schedule> schedule_between(const SizedRecording& smaller,
                                         const SizedRecording& larger, int ranks) {
  try {
    require(smaller.ranks < ranks && ranks < larger.ranks);
    const Sizes sizes(smaller.ranks, larger.ranks, ranks);
    return Between(*smaller.schedule, *larger.schedule, sizes).result();
  } catch (const NotAlike&) {
    return std::nullopt;
  }
}

namespace {

/// How many of a group's parts hold elements of the parameter alone, as a law of the group's size.
enum class WholeParts : std::uint8_t { all, all_but_one, share, other };

/// The second copy is what all ranks' parts are, with their padding, in `ranks` parts.
WholeParts whole_parts(std::int64_t elements, std::int64_t world, std::int64_t ranks) {
  const std::int64_t padded = (elements + world - 1) / world * world;
  if (elements == padded) return WholeParts::all;
  if (padded - elements < padded / ranks) return WholeParts::all_but_one;
  const bool is_share = elements * ranks % padded == 0 && elements * ranks >= padded;
  return is_share ? WholeParts::share : WholeParts::other;
}

}  // namespace

int largest_group(int world) { return world < 2 ? 1 : world / smallest_divisor(world); }

std::optional<int> smallest_alike_group(const Choice& choice, const Model& model) {
  if (choice.runtime != Runtime::deepspeed || choice.sharding != ShardingStrategy::hybrid_shard)
    return std::nullopt;
  const int world = choice.mesh.world();
  std::set<std::int64_t> sizes;
  for (const Parameter& parameter : model.parameters) sizes.insert(parameter.elements());
  std::optional<int> smallest;
  for (int ranks = largest_group(world); ranks > 1; --ranks) {
    if (world % ranks != 0) continue;
    const bool is_alike = std::ranges::all_of(sizes, [&](std::int64_t elements) {
      const WholeParts parts = whole_parts(elements, world, ranks);
      return parts != WholeParts::other &&
             parts == whole_parts(elements, world, largest_group(world));
    });
    if (!is_alike) break;
    smallest = ranks;
  }
  return smallest;
}

bool mesh_only_sizes(const Choice& choice, const Model& model) {
  const Mesh& mesh = choice.mesh;
  if (mesh.shard < 2 || mesh.replicate < 2) return false;
  const std::optional<int> smallest = smallest_alike_group(choice, model);
  return smallest && mesh.shard >= *smallest;
}

MeshRecordings::Known& MeshRecordings::latest(const std::string& name) {
  const auto found =
      std::ranges::find_if(families_, [&](const Known& family) { return family.name == name; });
  if (found != families_.end())
    families_.splice(families_.begin(), families_, found);
  else
    families_.push_front({.name = name});
  return families_.front();
}

void MeshRecordings::keep_to_limit() {
  std::size_t rows = 0;
  auto family = families_.begin();
  for (; family != families_.end(); ++family) {
    for (const SizedRecording& one : family->recordings)
      rows += one.schedule->program.actions.size();
    if (rows > most_kept_rows && family != families_.begin()) break;
  }
  families_.erase(family, families_.end());
}

/// What a thread is recording counts: who needs it, too, waits for less than a recording takes.
MeshRecordings::Neighbours MeshRecordings::neighbours_of(const std::string& name, int ranks) {
  const std::scoped_lock lock(mutex_);
  const Known& known = latest(name);
  std::set<int> sizes;
  for (const SizedRecording& one : known.recordings) sizes.insert(one.ranks);
  for (auto work = in_work_.lower_bound({name, 0});
       work != in_work_.end() && work->first.first == name; ++work)
    sizes.insert(work->first.second);
  Neighbours found{.are_alike = known.is_alike};
  if (const auto larger = sizes.lower_bound(ranks); larger != sizes.end()) found.larger = *larger;
  if (const auto above = sizes.upper_bound(ranks); above != sizes.begin())
    found.smaller = *std::prev(above);
  return found;
}

void MeshRecordings::keep(const std::string& name, const SizedRecording& recording) {
  const std::scoped_lock lock(mutex_);
  std::vector<SizedRecording>& all = latest(name).recordings;
  const auto place = std::ranges::lower_bound(all, recording.ranks, {}, &SizedRecording::ranks);
  if (place == all.end() || place->ranks != recording.ranks) all.insert(place, recording);
  keep_to_limit();
}

void MeshRecordings::keep_not_alike(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  latest(name).is_alike = false;
}

std::optional<SizedRecording> MeshRecordings::kept(const std::string& name, int ranks) {
  const std::vector<SizedRecording>& all = latest(name).recordings;
  const auto found = std::ranges::find(all, ranks, &SizedRecording::ranks);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

/// The other thread may be stopped, and this one not.
SizedRecording MeshRecordings::recorded_by_other(const std::shared_future<SizedRecording>& other,
                                                 const Family& family, int ranks) {
  try {
    return other.get();
  } catch (const Error& error) {
    if (error.code() != ExitCode::interrupted) throw;
  }
  return recorded(family, ranks);
}

SizedRecording MeshRecordings::recorded(const Family& family, int ranks) {
  const std::pair key(family.name, ranks);
  std::promise<SizedRecording> promise;
  {
    std::unique_lock lock(mutex_);
    if (std::optional<SizedRecording> known = kept(family.name, ranks)) return *known;
    const auto [other, is_ours] = in_work_.try_emplace(key, promise.get_future().share());
    if (!is_ours) {
      const std::shared_future<SizedRecording> result = other->second;
      lock.unlock();
      return recorded_by_other(result, family, ranks);
    }
  }
  const auto end = [&] {
    const std::scoped_lock lock(mutex_);
    in_work_.erase(key);
  };
  try {
    const SizedRecording made{.ranks = ranks,
                              .schedule = std::make_shared<const Schedule>(family.record(ranks))};
    keep(family.name, made);
    end();
    promise.set_value(made);
    return made;
  } catch (...) {
    end();
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::shared_ptr<const Schedule> MeshRecordings::of(const Family& family, int ranks) {
  const Neighbours beside = neighbours_of(family.name, ranks);
  const bool is_there = beside.larger == ranks, is_first = !beside.larger && !beside.smaller;
  if (is_there || is_first || !beside.are_alike) return recorded(family, ranks).schedule;
  // Between the one that is there and the last on the other side lie most that may be asked for.
  const int larger = beside.larger.value_or(family.largest);
  const int smaller = beside.smaller.value_or(family.smallest);
  if (ranks == larger || ranks == smaller) return recorded(family, ranks).schedule;
  try {
    // The one that nobody records comes first.
    SizedRecording above, below;
    if (!beside.larger) above = recorded(family, larger);
    below = recorded(family, smaller);
    if (beside.larger) above = recorded(family, larger);
    if (std::optional<Schedule> schedule = schedule_between(below, above, ranks))
      return std::make_shared<const Schedule>(std::move(*schedule));
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;  // a refusal of the last one is not ours
  }
  keep_not_alike(family.name);
  return recorded(family, ranks).schedule;
}

}  // namespace shardscope::planner
