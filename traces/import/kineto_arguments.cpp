#include "traces/import/kineto_arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "traces/import/json_scanner.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 58;

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// -1 where there is none, or more than can be.
std::int64_t count_or_none(std::string_view text) {
  const std::int64_t value = integer(text).value_or(-1);
  return value >= 0 && value <= max_believed_bytes ? value : -1;
}

std::uint32_t text_or_none(std::string_view value, NameTable& names) {
  if (!value.starts_with('"')) return no_name;
  return names.intern(unescaped(value.substr(1, value.size() - 2)));
}

struct ActivityKey {
  std::string_view key;
  std::optional<std::int64_t> ActivityArguments::*value;
};
constexpr std::array<ActivityKey, 4> activity_keys{
    {{"device", &ActivityArguments::device},
     {"stream", &ActivityArguments::stream},
     {"correlation", &ActivityArguments::correlation},
     {"bytes", &ActivityArguments::bytes}}};

/// Leaves out what is not within 0 to `most`.
void bound(std::optional<std::int64_t>& number, std::int64_t most, bool& is_left_out) {
  if (!number || (*number >= 0 && *number <= most)) return;
  number.reset();
  is_left_out = true;
}

bool is_believable(const MemoryArguments& memory) {
  constexpr std::int64_t device_types = 256;  // c10::DeviceType is a signed byte
  const auto holds = [](Bytes bytes) {
    return bytes.count >= 0 && bytes.count <= max_believed_bytes;
  };
  const MemoryDevice& device = memory.device;
  return device.type >= 0 && device.type < device_types && device.id >= -1 &&
         device.id <= max_believed_device && holds(memory.change.allocated) &&
         holds(memory.change.reserved) && memory.change.bytes.count >= -max_believed_bytes &&
         memory.change.bytes.count <= max_believed_bytes;
}

struct TextKey {
  std::string_view key;
  std::uint32_t CommunicationRow::*value;
};
constexpr std::array<TextKey, 5> text_keys{
    {{"Collective name", &CommunicationRow::collective},
     {"Process Group Name", &CommunicationRow::group},
     {"Process Group Description", &CommunicationRow::group_description},
     {"dtype", &CommunicationRow::dtype},
     {"Process Group Ranks", &CommunicationRow::ranks}}};

struct NumberKey {
  std::string_view key;
  std::int64_t CommunicationRow::*value;
};
constexpr std::array<NumberKey, 4> number_keys{{{"Group size", &CommunicationRow::group_size},
                                                {"In msg nelems", &CommunicationRow::elements_in},
                                                {"Out msg nelems", &CommunicationRow::elements_out},
                                                {"Seq", &CommunicationRow::sequence}}};

/// Where the tensors stand among an operator's arguments; the others work in place on the first.
struct TensorPlaces {
  std::string_view name;
  std::size_t output, input;
};
constexpr std::array<TensorPlaces, 5> tensor_places{{{"c10d::_allgather_base_", 0, 1},
                                                     {"c10d::_reduce_scatter_base_", 0, 1},
                                                     {"c10d::allgather_", 0, 1},
                                                     {"c10d::reduce_scatter_", 0, 1},
                                                     {"c10d::alltoall_base_", 0, 1}}};

/// Product of a shape's numbers, -1 where it is none or too large.
std::int64_t elements_of_shape(std::string_view shape) {
  std::int64_t elements = 1;
  for_each_element(shape, [&](std::string_view size) {
    const auto value = integer(size);
    const bool is_usable =
        value && *value >= 0 && elements >= 0 && (*value == 0 || elements <= max_elements / *value);
    elements = is_usable ? elements * *value : -1;
  });
  return elements;
}

/// Of one argument: a shape, a list of shapes, or nothing (-1).
std::int64_t elements_of(std::string_view dims) {
  std::int64_t sum = 0;
  bool is_list = false, is_empty = true;
  for_each_element(dims, [&](std::string_view element) {
    is_empty = false;
    if (!element.starts_with('[')) return;
    is_list = true;
    const std::int64_t elements = elements_of_shape(element);
    sum = sum < 0 || elements < 0 || sum > max_elements ? -1 : sum + elements;
  });
  if (is_empty) return -1;
  return is_list ? sum : elements_of_shape(dims);
}

}  // namespace

ActivityArguments activity_arguments(std::string_view arguments) {
  ActivityArguments result;
  for_each_member(arguments, [&](std::string_view key, std::string_view value) {
    for (const ActivityKey& known : activity_keys) {
      if (known.key == key) result.*known.value = integer(value);
    }
  });
  bound(result.device, max_believed_device, result.has_unbelievable);
  bound(result.bytes, max_believed_bytes, result.has_unbelievable);
  return result;
}

std::optional<MemoryArguments> memory_arguments(std::string_view arguments) {
  std::optional<std::int64_t> bytes, allocated, reserved, type, id, order;
  const std::array<std::pair<std::string_view, std::optional<std::int64_t>*>, 6> fields{
      {{"Bytes", &bytes},
       {"Total Allocated", &allocated},
       {"Total Reserved", &reserved},
       {"Device Type", &type},
       {"Device Id", &id},
       {"Ev Idx", &order}}};
  for_each_member(arguments, [&](std::string_view key, std::string_view value) {
    for (const auto& [known, field] : fields) {
      if (known == key) *field = integer(value);
    }
  });
  if (!bytes || !allocated || !type || !id) return std::nullopt;
  MemoryArguments memory{.device = {*type, *id},
                         .change = {.order = order.value_or(0),
                                    .bytes = {*bytes},
                                    .allocated = {*allocated},
                                    .reserved = {reserved.value_or(0)}}};
  memory.is_believable = is_believable(memory);
  return memory;
}

CommunicationRow nccl_arguments(std::string_view arguments, NameTable& names) {
  CommunicationRow row;
  for_each_member(arguments, [&](std::string_view key, std::string_view value) {
    for (const TextKey& known : text_keys) {
      if (known.key == key) row.*known.value = text_or_none(value, names);
    }
    for (const NumberKey& known : number_keys) {
      if (known.key == key) row.*known.value = count_or_none(value);
    }
  });
  return row;
}

CommunicationRow operator_arguments(std::string_view name, std::string_view arguments,
                                    NameTable& names) {
  CommunicationRow row;
  std::vector<std::int64_t> elements;
  const bool is_transport =
      name.starts_with("gloo:");  // takes one tensor, maybe without dimensions
  for_each_member(arguments, [&](std::string_view key, std::string_view value) {
    if (key == "Input Dims") {
      for_each_element(value, [&](std::string_view dims) {
        elements.push_back(is_transport ? elements_of_shape(dims) : elements_of(dims));
      });
    } else if (key == "Input type" && is_transport) {
      for_each_element(value, [&](std::string_view type) {
        if (row.dtype == no_name) row.dtype = text_or_none(type, names);
      });
    }
  });
  const auto places = std::find_if(tensor_places.begin(), tensor_places.end(),
                                   [&](const TensorPlaces& known) { return known.name == name; });
  const bool is_in_place = places == tensor_places.end();
  const std::size_t input = is_in_place ? 0 : places->input;
  const std::size_t output = is_in_place ? 0 : places->output;
  if (input < elements.size()) row.elements_in = elements[input];
  if (output < elements.size()) row.elements_out = elements[output];
  return row;
}

}  // namespace shardscope
