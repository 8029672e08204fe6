#include "cli/recorded_costs.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "core/pytorch/runtimes/record/operator_work.h"
#include "core/schedule/schedule.h"
#include "sim/engine/clock_options.h"

namespace shardscope {
namespace {

std::vector<std::string_view> fields_of(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

/// 0 of what is none.
std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  return std::clamp<std::int64_t>(number, 0, largest);
}

/// "0,8,", or "2" where the members are not known.
Ranks members_of(std::string_view text) {
  if (text.find(',') == std::string_view::npos)
    return Ranks::up_to(static_cast<int>(std::max<std::int64_t>(1, number_of(text))));
  std::vector<int> members;
  for (const std::string_view one : fields_of(text, ','))
    if (!one.empty()) members.push_back(static_cast<int>(number_of(one)));
  return Ranks(std::move(members));
}

DeviceClockOptions clocks_of(const HardwareProfile& profile) {
  Schedule of_pytorch;
  of_pytorch.memory = MemorySource::caching_allocator;
  return clock_options(of_pytorch, profile);
}

/// The recorder does not say whether the operation is of a forward or a backward.
Duration mean(Duration forward, Duration backward) { return {(forward.ns + backward.ns) / 2}; }

Duration launch_time(const HardwareProfile& profile) {
  const DeviceClockOptions clocks = clocks_of(profile);
  return mean(clocks.launch, clocks.backward_launch);
}

Duration dispatch_time(const HardwareProfile& profile) {
  const DeviceClockOptions clocks = clocks_of(profile);
  return mean(clocks.dispatch, clocks.backward_dispatch);
}

}  // namespace

Duration RecordedCosts::call(const Fields& fields) const {
  const std::string name = fields[0] == "node" ? std::string(fields[1]) : operator_name(fields[1]);
  return model_.work_time(
      work_of(recorded_call(name, fields[2], fields[3]), static_cast<int>(number_of(fields[4]))));
}

/// Of an operator on the host's tensors; little work takes the time to dispatch it.
Duration RecordedCosts::host(const Fields& fields) const {
  const Bytes moved =
      host_work_of(recorded_call(operator_name(fields[1]), fields[2], fields[3])).bytes;
  if (moved < eager::least_host_work) return dispatch_time(profile_);
  return launch_time(profile_) + model_.host_time(moved, world_);
}

Duration RecordedCosts::copy(const Fields& fields) const {
  const Bytes bytes{number_of(fields[1])};
  const bool to_host = fields[2] == "DtoH";
  if (!to_host && fields[2] != "HtoD") return model_.copy_time(bytes * 2);
  if (fields[3] != "pageable") return model_.host_copy_time(bytes);
  return model_.pageable_copy_time(bytes, to_host ? CopyWay::to_host : CopyWay::to_device);
}

Duration RecordedCosts::product(const Fields& fields) const {
  return model_.work_time(work_of(RecordedProduct{.shape = {.batch = number_of(fields[4]),
                                                            .m = number_of(fields[1]),
                                                            .n = number_of(fields[2]),
                                                            .k = number_of(fields[3])},
                                                  .type = static_cast<int>(number_of(fields[5]))}));
}

Duration RecordedCosts::collective(const Fields& fields) const {
  const OperationKind kind = kind_of_collective(fields[1]);
  const Group group{.name = {}, .ranks = members_of(fields[4])};
  const Collective collective = collective_of(kind, number_of(fields[2]), number_of(fields[3]),
                                              static_cast<std::int64_t>(group.ranks.size()));
  return model_.collective_time(kind, payload_of(collective), group);
}

Duration RecordedCosts::cost_of(const Fields& fields) const {
  const auto asks = [&](std::string_view kind, std::size_t count) {
    return fields[0] == kind && fields.size() == count;
  };
  if (asks("call", 5) || asks("node", 5)) return call(fields);
  if (asks("product", 6)) return product(fields);
  if (asks("collective", 5)) return collective(fields);
  if (asks("host", 4)) return host(fields);
  if (asks("copy", 4)) return copy(fields);
  if (asks("set", 2))
    return model_.work_time(
        {.kind = WorkKind::fill, .dtype = Dtype::uint8, .bytes = {number_of(fields[1])}});
  if (asks("kernel", 1)) return model_.work_time({});
  if (asks("launch", 1)) return launch_time(profile_);
  if (asks("dispatch", 1)) return dispatch_time(profile_);
  return {};
}

std::int64_t RecordedCosts::answer(std::string_view question) const {
  return cost_of(fields_of(question, '\t')).ns;
}

}  // namespace shardscope
